"""``iot-mqtt pipeline``: starts the jobs of ``spark/``, tells what they do, and draws what they made.

Nothing here imports Spark or ``spark/``: a job is a program that is given one JSON file of settings.
"""
