"""Faults among nodes: who is dead, who owns whom, who wants what, and what was heard."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutation import Mutation

_ROSTER: Final = "iot_mqtt/cluster/roster.py"
_OWNERSHIP: Final = "iot_mqtt/cluster/ownership.py"
_FENCING: Final = "iot_mqtt/cluster/fencing.py"
_ADOPTION: Final = "iot_mqtt/cluster/adoption.py"
_CHANNELS: Final = "iot_mqtt/cluster/channels.py"
_INTERESTS: Final = "iot_mqtt/cluster/interests.py"
_LINK: Final = "iot_mqtt/cluster/links/link.py"
_RING: Final = "iot_mqtt/cluster/links/ring.py"
_PEERS: Final = "iot_mqtt/broker/cluster/peers.py"
_INTEREST: Final = "iot_mqtt/broker/cluster/interest.py"
_DEPARTED: Final = "iot_mqtt/broker/cluster/departed.py"
_STRAYS: Final = "iot_mqtt/cluster/strays.py"
_NOBODY: Final = "tests/unit/broker/test_nobody_takes.py"
_NODE: Final = "tests/unit/cluster/test_node.py"
_ADOPTING: Final = "tests/unit/cluster/test_adoption.py"
_OWNING: Final = ("tests/unit/cluster/test_ownership.py", "tests/unit/cluster/test_roster.py")
_CONVERSATION: Final = "iot_mqtt/cluster/conversation.py"
_UNHEARD: Final = "iot_mqtt/broker/cluster/unheard.py"
_VERSIONS: Final = "iot_mqtt/broker/cluster/retained_versions.py"
_RETENTION: Final = "iot_mqtt/broker/publishing/retention.py"
_RETAINED: Final = "tests/unit/broker/test_retained_versions.py"
_LINKS: Final = ("tests/unit/cluster/links/test_link.py", "tests/unit/cluster/links/test_links.py")

CLUSTER: Final = (
    Mutation(
        "cluster.suback-before-silence",
        "iot_mqtt/cluster/settings.py",
        "known_within: float = 4.0",
        "known_within: float = 2.0",
        (_NODE,),
        "a subscription is promised before a node that does not hear of it records everything",
    ),
    Mutation(
        "cluster.behind-and-trusted",
        _INTERESTS,
        "elif now - self._behind_since >= within:",
        "elif now - self._behind_since >= within * 100:",
        ("tests/unit/cluster/test_interests.py",),
        "the same where it hears, and lacks what was said",
    ),
    Mutation(
        "cluster.starting-is-dead",
        _ROSTER,
        "return Standing.DEAD if now - since >= self._grace else Standing.UNSEEN",
        "return Standing.DEAD",
        _OWNING,
        "a node that is starting is fenced before it is in the list",
    ),
    Mutation(
        "cluster.unseen-for-ever",
        _ROSTER,
        "return Standing.DEAD if now - since >= self._grace else Standing.UNSEEN",
        "return Standing.UNSEEN",
        _OWNING,
        "clients of a node that never came are refused for ever",
    ),
    Mutation(
        "cluster.gone-is-unseen",
        _ROSTER,
        "if life.boot <= self._seen.get(life.number, 0):",
        "if life.boot < self._seen.get(life.number, 0):",
        _OWNING,
        "clients of a node that died wait out a grace that is for those that start",
    ),
    Mutation(
        "cluster.later-life-is-the-same",
        _ROSTER,
        "if member is not None and member.boot == life.boot:",
        "if member is not None:",
        _OWNING,
        "a node that was started again is asked for clients of the life that died",
    ),
    Mutation(
        "cluster.unseen-is-taken",
        _OWNERSHIP,
        "        if standing is Standing.UNSEEN:\n            return Refusal.HOME_BUSY\n",
        "",
        _OWNING,
        "a node that is starting is fenced before it is in the list",
    ),
    Mutation(
        "cluster.not-fenced",
        _OWNERSHIP,
        "        await self._fences.fence(*life)\n        return None",
        "        return None",
        _OWNING,
        "a paused node writes over what its successor has written",
    ),
    Mutation(
        "cluster.claimed-while-away",
        _OWNERSHIP,
        "                if not wanted():\n                    return self._refuse(Refusal.UNWANTED)\n                if not self._connected():\n                    return self._refuse(Refusal.NOT_CONNECTED)\n",
        "                if not wanted():\n                    return self._refuse(Refusal.UNWANTED)\n",
        _OWNING,
        "a node that does not see the others takes their clients",
    ),
    Mutation(
        "cluster.claimed-after-the-answer",
        _OWNERSHIP,
        "                    return self._refuse(reason)\n                if not self._connected():\n                    return self._refuse(Refusal.NOT_CONNECTED)\n",
        "                    return self._refuse(reason)\n",
        _OWNING,
        "a node that was cut off while it asked takes a client",
    ),
    Mutation(
        "cluster.foreign-is-released",
        _OWNERSHIP,
        "_ANSWERS: Final[dict[bytes, Refusal | None]] = {RELEASED: None, FOREIGN: Refusal.FOREIGN}",
        "_ANSWERS: Final[dict[bytes, Refusal | None]] = {RELEASED: None, FOREIGN: None}",
        _OWNING,
        "a client takes the session of another user by going to another node",
    ),
    Mutation(
        "cluster.fenced-by-number",
        _FENCING,
        "return boot <= self._fenced.get(number, 0)",
        "return number in self._fenced",
        _OWNING,
        "the second death of a node is not fenced",
    ),
    Mutation(
        "cluster.fence-not-finished",
        _FENCING,
        "            await self._grid.finish(number, boot)\n",
        "",
        _OWNING,
        "a batch in whose middle a node died stays half",
    ),
    Mutation(
        "cluster.adopted-without-lease",
        _ADOPTION,
        "        if lease is None:\n            return\n        try:",
        "        try:",
        (_ADOPTING,),
        "two nodes take over what a dead one has left",
    ),
    Mutation(
        "cluster.absent-is-dead",
        _ADOPTION,
        "if self._roster.standing(life) is Standing.DEAD and now - since >= self._settings.absent_grace:",
        "if now - since >= 0.0:",
        (_ADOPTING, _NODE),
        "a node that is starting is taken for dead",
    ),
    Mutation(
        "cluster.epoch-again",
        _CHANNELS,
        "self._epoch = max(self._epoch, 0 if record is None else read(record).epoch) + 1",
        "self._epoch = (0 if record is None else read(record).epoch) + 1",
        ("tests/unit/cluster/test_channels.py",),
        "a record that was removed and made anew looks like the old one to who is about to replace it",
    ),
    Mutation(
        "cluster.let-go-of-others",
        _CHANNELS,
        "if record is not None and read(record).life == self._own and unused():",
        "if record is not None and unused():",
        ("tests/unit/cluster/test_channels.py",),
        "a node removes the record by which another one owns a client",
    ),
    Mutation(
        "cluster.routes-follow-nothing",
        _INTERESTS,
        "if not routes.full and routes.since != self.version:",
        "if not routes.full and routes.since > self.version:",
        ("tests/unit/cluster/test_interests.py",),
        "an old change is taken for a new one: messages go nowhere",
    ),
    Mutation(
        "cluster.known-by-some",
        _INTERESTS,
        "return all(acknowledged.get(peer, -1) >= version for peer in self._expected())",
        "return any(acknowledged.get(peer, -1) >= version for peer in self._expected())",
        ("tests/unit/cluster/test_interests.py",),
        "SUBACK comes before every node forwards for the subscription",
    ),
    Mutation(
        "cluster.digest-not-looked-at",
        _INTERESTS,
        "return version == self.version and digest == self.digest.value",
        "return version == self.version",
        ("tests/unit/cluster/test_interests.py",),
        "routes that differ stay so",
    ),
    Mutation(
        "cluster.old-boot-heard",
        _LINK,
        "if not self.member or head.sender_boot < self.peer_boot or not head.sender_boot:",
        "if not self.member or not head.sender_boot:",
        _LINKS,
        "datagrams of a life that is over are taken for those of the present one",
    ),
    Mutation(
        "cluster.duplicates-heard",
        _LINK,
        "        if arrivals.is_duplicate(first, last):\n            figures.duplicates += 1\n            return\n",
        "",
        (*_LINKS, "tests/unit/cluster/links/test_arrivals.py"),
        "a datagram that comes twice is counted, and read, twice",
    ),
    Mutation(
        "cluster.silence-off",
        _LINK,
        "now - self.heard_at >= settings.silence:",
        "now - self.heard_at >= 1000 * settings.silence:",
        _LINKS,
        "a node that is gone counts as there",
    ),
    Mutation(
        "cluster.own-pause-is-silence",
        _LINK,
        "        if self.heard_at is not None:\n            self.heard_at += pause\n",
        "",
        _LINKS,
        "a node that stood still takes all others for gone",
    ),
    Mutation(
        "cluster.ring-without-end",
        _RING,
        "while self._sent and (self.bytes > self._most_bytes or len(self._sent) > self._most_count):",
        "while self._sent and len(self._sent) > self._most_count:",
        _LINKS,
        "no bound for what is kept for a peer that confirms nothing",
    ),
    Mutation(
        "cluster.kept-routes-wiped",
        _PEERS,
        "for one in self._wants[number].values() if one.kept]",
        "for one in self._wants[number].values() if not one.kept]",
        ("tests/unit/broker/test_peers.py",),
        "what is published while a node is down is lost for its sessions",
    ),
    Mutation(
        "cluster.old-routes-stay",
        _PEERS,
        "interest = [*interest, *(Interest(filter) for filter in wanted if filter not in told)]",
        "interest = [*interest]",
        ("tests/unit/broker/test_peers.py",),
        "messages are forwarded for ever for subscriptions that are gone",
    ),
    Mutation(
        "cluster.forwarded-early",
        _PEERS,
        "held.append((latest, publication, member))",
        "held.append((0, publication, member))",
        ("tests/unit/broker/test_peers.py", "tests/unit/broker/test_elsewhere.py"),
        "another node delivers a message that is lost here with the power",
    ),
    Mutation(
        "cluster.forwarded-out-of-order",
        _PEERS,
        "            elif publication.qos and held:\n                held.append((0, publication, member))\n",
        "",
        ("tests/unit/broker/test_peers.py",),
        "a message overtakes an earlier one of its publisher [MQTT-4.6.0-6]",
    ),
    Mutation(
        "cluster.route-not-stored",
        _INTEREST,
        "            if sign > 0 and counts.kept == 1:\n                self._store.save_route(self._peers.number, filter)\n            elif not counts.kept:",
        "            if not counts.kept:",
        ("tests/unit/broker/test_interest.py",),
        "a node that starts while another is down does not record for its sessions",
    ),
    Mutation(
        "cluster.untold-in-everything",
        _INTEREST,
        "        self.tell()\n        return self.all()",
        "        return self.all()",
        ("tests/unit/broker/test_interest.py",),
        "a peer forgets what was loaded a moment ago",
    ),
    Mutation(
        "cluster.used-record-goes",
        _DEPARTED,
        "            if self._is_unused(client_id):\n",
        "            if True:\n",
        ("tests/unit/broker/test_homes.py", "tests/unit/broker/test_hand_over.py"),
        "a client that came back at once has no home",
        harmless="whoever removes the record asks `unused` once more, behind the read",
    ),
    Mutation(
        "cluster.unheard-trusted",
        _CONVERSATION,
        "self.node.doubt(doubted)",
        "pass",
        (_NODE,),
        "what a node wants that is not heard is taken for known",
    ),
    Mutation(
        "cluster.unheard-unrecorded",
        _UNHEARD,
        "            self._recording.record(publication)\n",
        "",
        ("tests/unit/broker/test_unheard.py",),
        "what a node may want that is not heard is acknowledged and in no log",
    ),
    Mutation(
        "cluster.retained-told-once",
        _VERSIONS,
        "return dict.fromkeys(topic for _, topic, _ in self._fresh)",
        "return {}",
        (_RETAINED,),
        "a node that starts misses what was retained and is committed only then",
    ),
    Mutation(
        "cluster.retained-late-untold",
        _VERSIONS,
        "            if began < since:\n                late[topic] = None\n",
        "",
        (_RETAINED,),
        "what was committed late stays removed where the store was read before",
    ),
    Mutation(
        "cluster.retained-start-wins",
        _RETENTION,
        "if self._versions.note(message.topic, version) > 0:",
        "if self._versions.note(message.topic, version) or True:",
        (_RETAINED,),
        "what is read at the start is put in the place of what was told meanwhile",
    ),
    Mutation(
        "cluster.group-forgotten-at-start",
        _INTEREST,
        "        self._record_for(self._stored, kept=True)\n",
        "",
        ("tests/unit/broker/test_interest.py",),
        "a group whose members are all on their way loses its place in the log of a node that starts",
    ),
    Mutation(
        "cluster.let-go-and-forgotten",
        "iot_mqtt/cluster/releases.py",
        "        self._let_go(client_id)\n",
        "",
        (_NOBODY,),
        "a session whose next home dies before it takes it is in nobody's memory, and nothing is recorded for it",
    ),
    Mutation(
        "cluster.claimed-perhaps",
        _OWNERSHIP,
        "            self._strays.add(client_id)\n",
        "",
        ("tests/unit/cluster/test_strays.py",),
        "the same where the grid does not say whether a claim was written",
    ),
    Mutation(
        "cluster.could-not-be-loaded",
        "iot_mqtt/broker/cluster/claims.py",
        "        self._peers.stray(client_id)\n",
        "",
        (_NOBODY,),
        "the same where a session could not be read",
    ),
    Mutation(
        "cluster.wants-what-it-knows",
        "iot_mqtt/cluster/loading.py",
        "            self._owner.node.unread(some)\n",
        "            pass\n",
        (_NOBODY,),
        "the same where it cannot be read for long",
    ),
    Mutation(
        "cluster.taken-back-as-it-was",
        _STRAYS,
        "            await self._take_back(ours)\n",
        "            await self._loading.load([key.decode() for key, _ in ours])\n",
        ("tests/unit/cluster/test_strays.py",),
        "a session that is taken back is in two places: whoever is about to take it finds the record as it was",
    ),
    Mutation(
        "cluster.adopted-perhaps",
        _ADOPTION,
        "            self._loading.end([*portion.lost, *portion.failed])\n",
        "            self._loading.end(portion.lost)\n",
        (_ADOPTING,),
        "a client of which the grid did not say whether it was adopted can connect nowhere",
    ),
)
