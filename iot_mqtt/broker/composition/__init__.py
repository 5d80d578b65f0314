"""The one place that knows all parts of a node's broker: it makes them, and gives each what it uses.

Nothing below imports this (import-linter holds it to that); the application and tests take the parts from
``Composition``, which has them by subject.
"""

from iot_mqtt.broker.composition.composition import Composition

__all__ = ["Composition"]
