"""Robots that speak ROS 2, without a ROS install: `ros2:CONFIG.yaml`.

`config` is what the file says, `dds` a participant in a ROS 2 domain, `idl` the types of its topics, `readings` what messages say,
and `robot` the robot.
"""
