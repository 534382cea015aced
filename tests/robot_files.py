"""Robots as files, for tests: an arm with a fixed part, a gripper that follows, and loops."""

ARM = """<?xml version="1.0" encoding="UTF-8"?>
<!-- An arm; this comment stays. -->
<robot name="arm">
  <link name="base"/>
  <link name="upper">
    <inertial>
      <origin xyz="0.01 0.02 0.15" rpy="0.3 -0.2 0.5"/>
      <mass value="2.0"/>
      <inertia ixx="0.02" ixy="0.001" ixz="-0.002" iyy="0.021" iyz="0.0005" izz="0.006"/>
    </inertial>
    <visual><geometry><mesh filename="package://nowhere/upper.stl"/></geometry></visual>
  </link>
  <link name='lower'><inertial><mass value='1.2'/><origin xyz='0 0 0.1'/>
    <inertia ixx='0.008' iyy='0.009' izz='0.002' ixy='0' ixz='0' iyz='0'/></inertial></link>
  <link name="tool">
    <inertial>
      <mass value="0.3"/>
      <inertia ixx="0.0005" iyy="0.0006" izz="0.0004" ixy="0" ixz="0" iyz="0"/>
    </inertial>
  </link>
  <link name="finger">
    <inertial><mass value="0.05"/><inertia ixx="2e-5" iyy="2e-5" izz="1e-5" ixy="0" ixz="0" iyz="0"/></inertial>
  </link>
  <link name="tip"/>
  <joint name="shoulder" type="revolute">
    <parent link="base"/> <child link="upper"/>
    <origin xyz="0 0 0.2" rpy="0.1 0.2 0.3"/>
    <axis xyz="0 1 0.2"/>
    <limit effort="80" velocity="3" lower="-2" upper="2"/>
    <dynamics damping="0.4" friction="0.7"/>
  </joint>
  <joint name="elbow" type="continuous">
    <parent link="upper"/> <child link="lower"/>
    <origin xyz="0 0.05 0.4" rpy="0 0.4 0"/>
    <axis xyz="1 0 0"/>
  </joint>
  <joint name="flange" type="fixed">
    <parent link="lower"/> <child link="tool"/>
    <origin xyz="0 0.02 0.3" rpy="0 0 0.7"/>
  </joint>
  <joint name="slide" type="prismatic">
    <parent link="tool"/> <child link="finger"/>
    <origin xyz="0 0.01 0.05"/>
    <axis xyz="0 1 0"/>
    <limit effort="20" velocity="1" lower="0" upper="0.1"/>
    <dynamics damping="2"/>
  </joint>
  <joint name="end" type="fixed"><parent link="finger"/><child link="tip"/></joint>
</robot>
"""

FOURBAR = """<mujoco model="fourbar"><!-- this comment stays -->
  <compiler angle="degree"/>
  <asset><mesh name="m" file="nowhere.stl"/></asset>
  <default>
    <joint damping="0.01" axis="0 1 0"/>
    <default class="heavy"><joint armature="0.002"/></default>
  </default>
  <worldbody>
    <body name="crank">
      <joint name="a" class="heavy"/>
      <inertial mass="0.2" pos="0.05 0 0" diaginertia="1e-4 2e-4 2.5e-4"/>
      <geom type="mesh" mesh="m"/>
      <body name="coupler" pos="0.1 0 0" euler="0 -60 0">
        <joint name="b" frictionloss="0.02"/>
        <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.01" mass="0.3"/>
      </body>
    </body>
    <body name="rocker" pos="0.25 0 0">
      <joint name="c" springref="20" stiffness="0.1"/><!-- and this -->
      <inertial pos="0 0 0.13" mass="0.25" fullinertia="1e-3 1.1e-3 2e-4 0 1e-5 0"/>
    </body>
  </worldbody>
  <equality><connect name="pin" body1="coupler" body2="rocker" anchor="0.3 0 0"/></equality>
</mujoco>
"""

WELDED = FOURBAR.replace(
    '<connect name="pin" body1="coupler" body2="rocker" anchor="0.3 0 0"/>',
    '<weld name="pin" body1="coupler" body2="rocker"/>',
)

MIXED = """<mujoco model="mixed">
  <compiler angle="degree" eulerseq="zyx"/>
  <option gravity="0.3 -0.2 -9.7"/>
  <default><joint damping="0.3"/></default>
  <worldbody>
    <body name="first" pos="0.1 0.2 0.3" euler="10 20 30">
      <joint name="j" armature="0.02" axis="0 0.3 1" pos="0.1 0 0.2" ref="30" stiffness="2" springref="10"/>
      <inertial mass="1" pos="0.1 0 .1" fullinertia=".3 .2 .25 0.01 0.02 0.03"/>
      <body name="slid" pos="0 0 1" euler="5 6 7">
        <joint type="slide" axis="1 1 0" ref="0.2"/>
        <geom size=".1 .2 .3" type="box" mass="2" pos="0.1 0 0"/>
        <body name="crossed" pos="0 0.3 0">
          <joint name="u1" axis="0 1 0" ref="20" armature="0.1"/>
          <joint name="u2" axis="0 0 1" ref="-15"/>
          <inertial mass="0.7" pos="0 0.1 0.1" diaginertia=".1 .12 .13"/>
          <body pos="0.2 0.1 0" euler="40 0 0"><geom type="capsule" size="0.05 0.1" density="500"/></body>
        </body>
        <body name="sleeve" pos="0 0 -0.3">
          <joint name="c1" axis="0 1 0" type="slide" ref="0.1"/>
          <joint name="c2" axis="0 1 0" ref="-15"/>
          <inertial mass="0.7" pos="0 0.1 0.1" diaginertia=".1 .12 .13"/>
        </body>
        <body name="puck" pos="0 0 -0.3">
          <joint name="px" axis="1 0 0" type="slide" ref="0.1"/>
          <joint name="pz" axis="0 0 1" type="slide" ref="0.05"/>
          <joint name="pt" axis="0 1 0" pos="0.1 0 0" ref="15"/>
          <inertial mass="0.9" pos="0 0.1 0.1" diaginertia=".1 .12 .13"/>
        </body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""
