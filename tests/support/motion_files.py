"""Small motion files, built in memory for the tests."""

from pathlib import Path

import numpy as np

BVH_HEADER = """HIERARCHY
ROOT Hips
{
  OFFSET 0 0 0
  CHANNELS 6 Xposition Yposition Zposition Zrotation Yrotation Xrotation
  JOINT LeftUpLeg
  {
    OFFSET 9 -8 0
    CHANNELS 3 Zrotation Xrotation Yrotation
    JOINT LeftLeg
    {
      OFFSET 0 -42 0
      CHANNELS 3 Yrotation Xrotation Zrotation
      End Site
      {
        OFFSET 0 -40 0
      }
    }
  }
  JOINT Spine
  {
    OFFSET 0 52 0
    CHANNELS 3 Xrotation Yrotation Zrotation
    JOINT LeftArm
    {
      OFFSET 18 0 0
      CHANNELS 3 Zrotation Yrotation Xrotation
      End Site
      {
        OFFSET 55 0 0
      }
    }
  }
}
"""

COLUMNS = 18
ROWS = (np.sin(np.arange(6 * COLUMNS)).reshape(6, COLUMNS) * 30.0).round(4)
ROWS[:, :3] = (0.3 * ROWS[:, :3]).round(4)  # a way that somebody may go


def bvh_text(rows: np.ndarray = ROWS, frame_time: str = "0.02", frames: int | None = None) -> str:
    lines = [" ".join(f"{value:.10g}" for value in row) for row in rows]
    count = len(rows) if frames is None else frames
    return f"{BVH_HEADER}MOTION\nFrames: {count}\nFrame Time: {frame_time}\n" + "\n".join(lines) + "\n"


def t_pose_bvh(frames: int) -> str:
    """Arms and legs whose first frame is a T-pose; both arms are down in the others and rise slowly."""
    channels = "CHANNELS 3 Zrotation Yrotation Xrotation\n"

    def limb(name: str, offset: str, tip: str) -> str:
        end = f"JOINT {name}End\n{{\nOFFSET {tip}\n{channels}End Site\n{{\nOFFSET 0 0 0\n}}\n}}\n"
        return f"JOINT {name}\n{{\nOFFSET {offset}\n{channels}{end}}}\n"

    text = BVH_HEADER[: BVH_HEADER.index("  JOINT")]
    text += limb("LeftUpLeg", "9 -8 0", "0 -80 0") + limb("RightUpLeg", "-9 -8 0", "0 -80 0")
    text += f"JOINT Spine\n{{\nOFFSET 0 50 0\n{channels}"
    text += limb("LeftArm", "15 0 0", "50 0 0") + limb("RightArm", "-15 0 0", "-50 0 0") + "}\n"
    rows = np.zeros((frames, 6 + 9 * 3))
    rows[:, 1] = 88.0
    rows[1:, 21] = -70.0 + np.arange(frames - 1)
    rows[1:, 27] = 70.0 - np.arange(frames - 1)
    return text + "}\n" + bvh_text(rows)[len(BVH_HEADER) :]


ASF = """# a small body
:version 1.10
:name small
:units
  mass 1.0
  length 0.45
  angle deg
:documentation
  none
:root
   order TX TY TZ RX RY RZ
   axis XYZ
   position 0 0 0
   orientation 0 0 0
:bonedata
  begin
     id 1
     name lfemur
     direction 0.34202 -0.939693 0
     length 7
     axis 0 0 20  XYZ
     dof rx ry rz
     limits (-160.0 20.0)
            (-70.0 70.0)
            (-60.0 70.0)
  end
  begin
     id 2
     name ltibia
     direction 0.34202 -0.939693 0
     length 7.5
     axis 0 0 20  XYZ
     dof rx
     limits (-10.0 170.0)
  end
  begin
     id 3
     name lowerback
     direction 0 1 0
     length 9
     axis 0 0 0  XYZ
  end
  begin
     id 4
     name lclavicle
     direction 1 0 0
     length 4
     axis 10 20 30  ZYX
     dof ry rz
  end
:hierarchy
  begin
    root lfemur lowerback
    lfemur ltibia
    lowerback lclavicle
  end
"""

AMC = """#!OML:ASF small.ASF
:FULLY-SPECIFIED
:DEGREES
1
root 1 16.5 -3 12 1.25 -0.94
lfemur -32.9 -0.23 22.4
ltibia 61.06
lclavicle 5.86415e-015 -2.06736e-014
2
root 1.1 16.6 -3.1 13 1.5 -0.9
lfemur -31.9 -0.33 22.1
ltibia 60.06
lclavicle 4 -2
3
root 1.2 16.7 -3.2 14 1.75 -0.8
lfemur -30.9 -0.43 22
ltibia 59.06
lclavicle 8 -4
"""


def write_bvh(folder: Path, text: str | bytes | None = None, name: str = "clip.bvh") -> Path:
    path = folder / name
    content = bvh_text() if text is None else text
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def write_amc(folder: Path, amc: str | bytes = AMC, asf: str | bytes = ASF, name: str = "07_01.amc") -> Path:
    (folder / "07.asf").write_bytes(asf if isinstance(asf, bytes) else asf.encode())
    path = folder / name
    path.write_bytes(amc if isinstance(amc, bytes) else amc.encode())
    return path
