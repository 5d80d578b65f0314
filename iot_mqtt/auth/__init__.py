"""Built-in authentication and rights: a file of users and a file of rules, behind ``iot_mqtt.ports.access``."""
