"""What each key means, in a sentence or two.

``config explain`` says it, and it stands above the key in ``application.yaml``. ``*`` is the name of any listener.
"""

from __future__ import annotations

SECTIONS = {
    "node": "The process itself.",
    "listeners": (
        "The ports that clients connect to. A listener of a further name needs `protocol` (or `codec`); everything "
        "else has the defaults shown for mqtt. Listening beyond loopback without authentication is refused unless "
        "auth.allow_anonymous: true is written out."
    ),
    "listeners.mqtt": "MQTT over TCP.",
    "listeners.mqtts": "MQTT over TLS; on as soon as tls.cert is set.",
    "listeners.ws": "MQTT over WebSocket.",
    "listeners.wss": "MQTT over WebSocket over TLS; on as soon as tls.cert is set.",
    "listeners.gateway": "Binary frames of PLC data gateways: docs/gateway-protocol.md.",
    "listeners.*": "One port that clients connect to.",
    "listeners.*.tls": "PEM files; the port speaks TLS when cert is set.",
    "listeners.*.outbox": "Bytes that may wait for one connection that does not read fast enough.",
    "admin": "The HTTP port of the API, /metrics, /health and /ready.",
    "grid": "Where sessions, subscriptions, retained and queued messages are kept.",
    "grid.ignite": "An Apache Ignite cluster, for grid.kind: ignite.",
    "registry": "How the nodes of a cluster find each other.",
    "registry.zookeeper": "For registry.kind: zookeeper.",
    "registry.static": "For registry.kind: static.",
    "plugins": "Codecs of other protocols than MQTT: docs/plugins.md.",
    "devices": "What is known of gateways and devices, and what became of commands: docs/commands.md.",
    "uplink": "What leaves towards the data platform: docs/uplink.md.",
    "uplink.file": "For uplink.kind: file.",
    "uplink.kafka": "For uplink.kind: kafka.",
    "uplink.kafka.security": "How this node and Kafka know that they talk to each other. Paths are those of PEM files.",
    "uplink.commands": "Commands to devices that come from Kafka, for uplink.kind: kafka. See docs/commands.md.",
    "pipeline": "What Spark makes of what went up, with `iot-mqtt pipeline`: docs/pipeline.md.",
    "pipeline.clean": "The job that checks readings and writes each of them once.",
    "pipeline.aggregate": "The job that sums readings up, per device, tag and window of time.",
    "pipeline.alarm": "The job that raises alarms and sends commands.",
    "mqtt": "What the broker announces to clients, and the limits it keeps.",
    "auth": "Who may connect, and what they may publish and subscribe to.",
    "durable_sessions": "Sessions that outlive their connections, and the node.",
    "log": (
        "level, format and file: the node's own log, without passwords and payloads. Everything else: the log of "
        "messages for durable sessions and replays."
    ),
}

KEYS = {
    "node.id": "Name of this node; unique in a cluster, and the same after a restart.",
    "node.data_dir": "Directory of the embedded grid and of admin.token. A relative path starts where this file is.",
    "node.readable_by": (
        "Who may read what this node writes. owner: nobody else. group: the files of the uplink, the pipeline's tables "
        "and log.file, too, for Spark as another user; never sessions, messages, plugins or admin.token."
    ),
    "node.drain_seconds": "After SIGTERM, everything is committed and closed within this many seconds.",
    "node.gc_threshold": "Objects that gather between two runs of Python's garbage collector; 0: Python's own setting.",
    "listeners.*.enabled": "Whether the port is opened.",
    "listeners.*.protocol": "What is spoken there: mqtt, websocket (MQTT in it) or frames (a codec's).",
    "listeners.*.host": "Address to listen on; 0.0.0.0 or '::' for all of them.",
    "listeners.*.port": "Port to listen on; 0 lets the system choose, and the line `ready` says which.",
    "listeners.*.max_connections": "Connections beyond this are closed as soon as they are accepted.",
    "listeners.*.backlog": "Connections that may wait to be accepted.",
    "listeners.*.reuse_port": "Share the port with other nodes on this machine (SO_REUSEPORT).",
    "listeners.*.proxy_protocol": (
        "Every connection begins with a PROXY protocol header (v1 or v2), which names the client's address. Only "
        "behind a load balancer that sends one."
    ),
    "listeners.*.trusted_proxies": (
        "Networks of the load balancers, such as [10.0.7.0/28]: only from there a header is believed, and whoever else "
        "connects is closed. Required with proxy_protocol."
    ),
    "listeners.*.allowed_origins": (
        "Sites whose pages may connect, such as [https://scada.example], or ['*']. Empty: pages of the address that "
        "they connect to. Clients that are no browser are not concerned; for protocol websocket only."
    ),
    "listeners.*.path": "HTTP path of the WebSocket; for protocol websocket only.",
    "listeners.*.codec": "Name of the codec that reads the frames; for protocol frames only.",
    "listeners.*.heartbeat": (
        "Seconds in which something always comes from a gateway that asks for nothing else; for protocol frames only."
    ),
    "listeners.*.command_expiry": (
        "Seconds for which commands wait for a gateway that is away; for protocol frames only."
    ),
    "listeners.*.commands_at_once": "Commands that one gateway may have without having dealt with them.",
    "listeners.*.tls.cert": "Certificate chain of the server.",
    "listeners.*.tls.key": "Private key of the certificate.",
    "listeners.*.tls.ca": "Certificates that client certificates are verified against.",
    "listeners.*.tls.require_client_certificate": "Refuse clients that present no valid certificate.",
    "listeners.*.tls.min_version": "Lowest TLS version that is spoken.",
    "listeners.*.outbox.high": "From here on the connection counts as not writable.",
    "listeners.*.outbox.low": "Down to here it stays so.",
    "listeners.*.durable_sessions": "false: sessions of clients that come here end with the node.",
    "listeners.*.outbox.limit": "Never more than this: QoS 0 is dropped and counted, QoS 1 and 2 wait in the session.",
    "plugins.codecs": (
        "A list of {name, enabled, isolation, config, limits}; `plugins: {NAME: {isolation: ...}}` says the same. "
        "isolation: inline (in this process; the bundled "
        "protocols' default) or process (a child process with limits and a watchdog; everybody else's). A codec that a "
        "listener names needs no entry."
    ),
    "devices.commands": (
        "Whether what is published to down/... with QoS 1 or 2 is accompanied as a command; false: it is a message "
        "like others."
    ),
    "devices.max_commands": "Commands that are not over yet; more are refused.",
    "devices.max_finished_commands": "Commands that are over and can still be asked for.",
    "devices.keep_commands": "Seconds for which a command that is over can be asked for.",
    "devices.longest_command": "Seconds after which a command without a deadline is given up.",
    "devices.grace": (
        "Seconds after which a command without a deadline is uncertain when it was sent and its connection is gone."
    ),
    "devices.max_devices": (
        "Gateways and devices that are remembered; those seen longest ago, of all that are not connected, make room."
    ),
    "devices.max_devices_behind": (
        "Of these, devices behind one gateway; its own ones that were seen longest ago make room."
    ),
    "devices.silent_after": (
        "Seconds for which a device behind a gateway that is connected is shown as online after it was last heard of."
    ),
    "devices.seen_interval": "Seconds between two writes of when a device was last seen.",
    "devices.shadows": "Whether what devices behind gateways report is kept as their shadow.",
    "devices.shadow_interval": "Seconds between two writes of a shadow.",
    "devices.max_shadow_bytes": "Bytes of each half of a shadow, as JSON.",
    "admin.enabled": "Whether the port is opened; without it there is no API, no ctl and no metrics.",
    "admin.host": "Address to listen on.",
    "admin.port": "Port to listen on; 0 lets the system choose.",
    "admin.max_connections": (
        "Connections at once. Where there is no room for one more, the one that has been waiting longest is closed."
    ),
    "admin.max_connections_per_address": "The same for the connections of one address.",
    "admin.request_timeout": "Seconds in which a whole request has to come: its first line, headers and body.",
    "admin.idle_timeout": "Seconds for which a connection may wait for its next request.",
    "grid.kind": "embedded: on this node's disk; memory: nowhere, for tests; ignite: in an Apache Ignite cluster.",
    "grid.ignite.addresses": "Thin-client endpoints, host:port.",
    "grid.ignite.gateway": "Gateways inside the Ignite servers, host:port; one is used, another when it is gone.",
    "grid.ignite.token": "What the gateways ask for.",
    "registry.kind": (
        "none: a node of its own; zookeeper: ZooKeeper says who is alive; static: the nodes of a list watch each "
        "other. Several nodes need grid.kind: ignite."
    ),
    "registry.zookeeper.hosts": "The ensemble, host:port.",
    "registry.zookeeper.path": "Where the nodes register.",
    "registry.zookeeper.session_timeout": "Seconds without a word after which a node counts as gone.",
    "registry.zookeeper.username": "Entries are written so that only this user may change them; null: no user.",
    "registry.zookeeper.password": "Of that user.",
    "registry.static.nodes": "The ids of all nodes, this one included.",
    "registry.static.timeout": "Seconds without a heartbeat after which a node counts as gone.",
    "uplink.kind": (
        "none: messages go to subscribers only; file: to files of JSON lines below <node.data_dir>/uplink, too, which "
        "Spark reads; kafka: to Kafka's topics, too."
    ),
    "uplink.ack": (
        "When a QoS 1 or 2 publish that goes up is acknowledged. spool: when it is committed in the log, be Kafka "
        "there or not; kafka: when Kafka has it, too, so that publishers wait while it is away."
    ),
    "uplink.file.rotate_bytes": "Files are finished, and can be read, when they have so many bytes together,",
    "uplink.file.rotate_seconds": "or so many seconds after their first record.",
    "uplink.file.limit": (
        "Bytes that all files may take; 0: no limit but the disk's. Nothing is deleted: what comes then waits."
    ),
    "uplink.file.reserve": "Bytes of the file system that the files leave free; until then messages wait in the log.",
    "uplink.kafka.bootstrap_servers": "Brokers to ask for the others, host:port.",
    "uplink.kafka.compression": "Of batches on the way and in Kafka.",
    "uplink.kafka.linger_seconds": "So long a batch waits for more records.",
    "uplink.kafka.batch_bytes": "Bytes that one batch of a partition has at most.",
    "uplink.kafka.buffer_bytes": "Bytes that may be under way to Kafka, in memory; more waits in the log.",
    "uplink.kafka.dead_letters": (
        "Topic for records that Kafka rejects, such as one that is too large, with the reason. null: they are counted "
        "and dropped."
    ),
    "uplink.kafka.create_topics": (
        "Make topics that are not there. false: messages wait until somebody makes them; a Kafka that makes topics by "
        "itself does, as its own configuration says."
    ),
    "uplink.kafka.partitions": (
        "Of a topic that is made, with create_topics; 0: as many as Kafka's own configuration says. A topic that is "
        "there keeps its own; the log tells of the difference."
    ),
    "uplink.kafka.replication": (
        "Replicas of a topic that is made, with create_topics; 0: as many as Kafka's own configuration says."
    ),
    "uplink.kafka.security.protocol": "plaintext, ssl (TLS), or either of them with a login: sasl_plaintext, sasl_ssl.",
    "uplink.kafka.security.ca": "Certificates that Kafka's are verified against. null: those of the system.",
    "uplink.kafka.security.cert": "Certificate of this node, where Kafka asks for one.",
    "uplink.kafka.security.key": "Private key of that certificate.",
    "uplink.kafka.security.mechanism": "How the password is shown.",
    "uplink.kafka.security.username": "Who logs in, with sasl_plaintext and sasl_ssl.",
    "uplink.kafka.security.password": "Of that user.",
    "uplink.kafka.options": (
        "Any other property of librdkafka, such as {socket.timeout.ms: 5000}, but those that the uplink's promises "
        "stand on."
    ),
    "uplink.commands.topic": "The topic that they are read from. null: none are.",
    "uplink.commands.group": (
        "The consumer group: the same for all nodes of a cluster, another one for every other broker."
    ),
    "uplink.commands.dead_letters": (
        "The topic for records that nobody can do as a command, with the reason. null: they are only logged and "
        "counted."
    ),
    "uplink.commands.max_age": (
        "Seconds after which a record is too old to be done: the command is expired. devices.keep_commands at most."
    ),
    "uplink.rules": (
        "Which messages go up, QoS 0 as well: a list of {filter, gateway, device, codec, qos, when, to, mode, key}; "
        "the first one that fits counts. gateway, device, codec: patterns (* and ?) on what a reading says. qos: the "
        "least. when: a condition, such as values.t > 80. to: the name of the platform's topic (iot.readings), or a "
        "template. mode: also (the default) or only: subscribers do not get them. key, within which order is kept: "
        "device (the default), client, topic or a template. `iot-mqtt ctl uplink reload` reads them anew. See "
        "docs/uplink.md."
    ),
    "pipeline.dir": (
        "Directory of the tables, the checkpoints, and what running jobs say of themselves. null: "
        "<node.data_dir>/pipeline."
    ),
    "pipeline.source": (
        "Where jobs read: files (below <node.data_dir>/uplink), kafka (as uplink.kafka says), or auto: as uplink.kind "
        "says."
    ),
    "pipeline.topics": "The topics that are read: names in Kafka, directories where files are read.",
    "pipeline.rules": "YAML file with the rules of the jobs clean and alarm. null: no rules.",
    "pipeline.master": (
        "What Spark calls a master: local[2] is this machine with two threads, local[*] with all of its cores."
    ),
    "pipeline.memory": "Heap of Spark's driver, such as 512m or 2g.",
    "pipeline.trigger_seconds": "Seconds from one batch of a job to its next.",
    "pipeline.watermark_minutes": "Readings that are later than this, by their own time, count as late.",
    "pipeline.max_records": "Records of Kafka that one batch takes at most.",
    "pipeline.max_files": "Files that one batch takes at most.",
    "pipeline.clean.topic": "Topic in Kafka for cleaned rows. null, or no Kafka: they go to the table alone.",
    "pipeline.clean.invalid_topic": (
        "Topic in Kafka for what is invalid, with its reason. null, or no Kafka: the table alone."
    ),
    "pipeline.clean.future_seconds": "Readings whose own time is further ahead than this are invalid.",
    "pipeline.aggregate.window_seconds": "Length of a window.",
    "pipeline.aggregate.lateness_seconds": "Seconds for which a window waits for what is late before it is written.",
    "pipeline.alarm.topic": "Topic in Kafka for alarms. null, or no Kafka: they go to the table alone.",
    "pipeline.alarm.commands_topic": "Topic in Kafka for commands to devices. null, or no Kafka: none are sent.",
    "mqtt.receive_maximum": "QoS 1 and 2 messages that a client may have unacknowledged towards the broker.",
    "mqtt.topic_alias_maximum": "Topic aliases that a client may use; 0: none.",
    "mqtt.topic_alias_maximum_outbound": "Topic aliases that the broker uses at most, of those the client allows.",
    "mqtt.max_packet_size": "Largest packet in bytes; a larger one is refused before it is read.",
    "mqtt.max_qos": "Highest QoS of a publish.",
    "mqtt.retain_available": "Whether retained messages may be published.",
    "mqtt.wildcard_available": "Whether filters may contain + and #.",
    "mqtt.shared_available": "Whether $share/<group>/<filter> may be subscribed to.",
    "mqtt.subscription_identifiers_available": "Whether subscriptions may carry an identifier.",
    "mqtt.server_keep_alive": "Keep-alive in seconds that v5 clients have to use; 0: their own.",
    "mqtt.session_expiry_interval": "Longest time in seconds that the session of an absent client is kept.",
    "mqtt.connect_timeout": "Seconds from accepting a connection to its CONNECT.",
    "mqtt.max_queued_messages": (
        "Messages that may wait for one session in memory: one that ends with its connection, or with the node "
        "(durable_sessions). More are dropped and counted. What waits for a durable session lies in the log and has "
        "its bounds: log.retention, log.retention_bytes."
    ),
    "mqtt.max_queued_bytes": "Bytes of messages that may wait for such a session.",
    "mqtt.max_inflight": "QoS 1 and 2 messages under way to one client; its own Receive Maximum also holds.",
    "mqtt.max_connect_size": "Bytes of a CONNECT, at most.",
    "mqtt.max_connecting_bytes": (
        "Bytes of all connections that have not logged in yet. Beyond it the one that began first is closed."
    ),
    "mqtt.max_client_id_length": "Longest client id, in characters.",
    "mqtt.allow_empty_client_id": "Give clean clients that come without a client id one.",
    "mqtt.max_topic_levels": "Most levels of a topic or filter.",
    "mqtt.max_subscriptions_per_client": "Most subscriptions of one session.",
    "mqtt.max_filters_per_subscribe": "Most filters in one SUBSCRIBE.",
    "mqtt.max_replays_per_client": "Most `$replay/` subscriptions of one session; more are refused with 0x97.",
    "mqtt.max_replays": "Most replays of connected clients that have not reached the present; more are refused.",
    "mqtt.replay_bytes": "Bytes of the log that are read for all replays at once, about; they take turns.",
    "mqtt.max_retained_messages": "Most retained messages on this node.",
    "mqtt.max_retained_bytes": "Most bytes of retained messages on this node.",
    "mqtt.shared_policy": "Which member of a shared subscription gets the next message.",
    "mqtt.server_reference": "Another server that v5 clients are told of when they are sent away; empty: none.",
    "mqtt.response_information": "What v5 clients get that ask for response information; empty: nothing.",
    "mqtt.sys_interval": "Seconds between two rounds of the $SYS topics; 0: none.",
    "durable_sessions.enable": (
        "Keep sessions with an expiry interval in the grid, and their messages in the log. false: they are kept in "
        "memory, with the limits of mqtt.max_queued_*."
    ),
    "durable_sessions.progress_delay": (
        "Seconds that what clients have confirmed at QoS 1 may be unwritten: after a crash, that much is sent again "
        "with DUP. 0: it is written with each batch, which is four times the writes. QoS 2 does not wait."
    ),
    "auth.allow_anonymous": (
        "Let clients in that name no user. When not written: true without users_file, false with it. Without "
        "users_file, clients that name a user are let in unverified, too."
    ),
    "auth.users_file": "Users and password hashes, kept with `iot-mqtt passwd`. null: nobody has a password.",
    "auth.acl_file": ("Rules about topics, client ids and gateway names. null: whoever was let in may do everything."),
    "auth.certificate_as_user": "The common name of a verified client certificate stands for user name and password.",
    "auth.session_of_another_user": (
        "What becomes of a client that asks for a session which another user began (all anonymous clients are one "
        "user). refuse: it is told 0x87 (5 in 3.x), and nothing happens to the session; clean: the session ends, its "
        "will goes out, and the client gets an empty one."
    ),
    "auth.hash_threads": "Threads that verify passwords; each takes about 19 MB.",
    "auth.hash_queue": "Passwords that may wait for a thread. Addresses take turns, and the users of one address; "
    "beyond the bound, clients of the address with most are told that the server is busy.",
    "auth.guess_burst": "Wrong passwords that one address (of IPv6: one /64) may show at once. Behind a load balancer, "
    "switch proxy_protocol on, or all clients are one address. 0: any number.",
    "auth.guess_seconds": "Seconds in which such an address may show one more; until then its clients wait.",
    "auth.verdict_cache_seconds": "How long the verdict on a password is remembered; 0: not at all.",
    "auth.verdict_cache_size": "How many verdicts are remembered.",
    "auth.reload_seconds": (
        "How often both files are looked at for changes, which hold for clients that are in, too; 0: only when told to."
    ),
    "log.level": "Least important lines that are written.",
    "log.format": "console: for people; json: one object a line, for machines.",
    "log.file": "Write to this file instead of standard error.",
    "log.shards": "Parts of the log of messages, by publisher. May be changed: it says where new messages go.",
    "log.generation": "Seconds of messages that are kept, and later dropped, together.",
    "log.retention": "Seconds that messages are kept for durable sessions and replays; 0: as long as there is room.",
    "log.retention_bytes": (
        "Bytes of messages that are kept at most, and no more than a shared grid has room for; the oldest are dropped "
        "and counted. 0: no limit."
    ),
    "log.topics": "Exceptions, as a list of {filter, retention, retention_bytes}; the first that matches counts.",
    "log.record": "Filters whose messages are logged for replays even if no durable session wants them.",
    "log.batch_size": "Messages that one session reads from the log at once.",
    "log.max_streams": "Groups of like topics in one generation; more topics share one per shard.",
    "log.page_cache": "Bytes of the log kept in memory for readers of the same stretch.",
    "log.disk_limit": (
        "Bytes that the grid may take: on this node's disk, or with Ignite in the fullest of its servers. From 80 % on "
        "there is an alarm; at the limit, QoS 1 and 2 publishes for durable sessions are refused (v5: 0x97) or wait "
        "(3.x). 0: no limit but that of the disk, or of the servers."
    ),
    "log.disk_reserve": "The same as soon as this node's disk has fewer bytes left than this.",
}
