"""Twinloop beside LeRobot: `bridge` serves robots of LeRobot to Twinloop."""
