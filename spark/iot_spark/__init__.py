"""The Spark side of iot-mqtt: data cleaned, summed up and watched. Neither it nor the broker imports the other."""
