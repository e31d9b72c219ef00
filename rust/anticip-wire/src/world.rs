//! Conversion between world and parent-local transforms, and Euler angles.

use crate::WireError;
use crate::pose::{Joint, PoseUpdate, SkeletonUpdate, is_position, is_rotation};
use crate::source::Update;

/// Hamilton product of two quaternions.
pub(crate) fn product([aw, ax, ay, az]: [f64; 4], [bw, bx, by, bz]: [f64; 4]) -> [f64; 4] {
    [
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
    ]
}

fn conjugate([w, x, y, z]: [f64; 4]) -> [f64; 4] {
    [w, -x, -y, -z]
}

fn rotate(q: [f64; 4], [x, y, z]: [f64; 3]) -> [f64; 3] {
    let [_, x, y, z] = product(product(q, [0.0, x, y, z]), conjugate(q));
    [x, y, z]
}

fn normalized(q: [f32; 4]) -> [f64; 4] {
    let q = q.map(f64::from);
    let norm = q.iter().map(|v| v * v).sum::<f64>().sqrt();
    q.map(|v| v / norm)
}

/// The rotation by intrinsic Euler angles in degrees about y, then x, then z.
pub(crate) fn from_euler_yxz(degrees: [f32; 3]) -> [f32; 4] {
    let [y, x, z] = degrees.map(|d| (f64::from(d) / 2.0).to_radians().sin_cos());
    let about_y = [y.1, 0.0, y.0, 0.0];
    let about_x = [x.1, x.0, 0.0, 0.0];
    let about_z = [z.1, 0.0, 0.0, z.0];
    product(product(about_y, about_x), about_z).map(|v| v as f32)
}

/// The inverse of [`from_euler_yxz`]: degrees about y, x and z.
pub(crate) fn to_euler_yxz(q: [f32; 4]) -> [f32; 3] {
    let q = q.map(f64::from);
    let norm = q.iter().map(|v| v * v).sum::<f64>().sqrt().max(1e-12);
    let [w, x, y, z] = q.map(|v| v / norm);
    let sine = 2.0 * (w * x - y * z);
    let about_x = sine.clamp(-1.0, 1.0).asin();
    let (about_y, about_z) = if sine.abs() < 0.999_999 {
        (
            (2.0 * (x * z + w * y)).atan2(1.0 - 2.0 * (x * x + y * y)),
            (2.0 * (x * y + w * z)).atan2(1.0 - 2.0 * (x * x + z * z)),
        )
    } else {
        // Gimbal lock: y and z turn about the same axis, so all of it is assigned to y.
        ((-2.0 * (x * z - w * y)).atan2(1.0 - 2.0 * (y * y + z * z)), 0.0)
    };
    [about_y, about_x, about_z].map(|v| v.to_degrees() as f32)
}

/// A joint's transform, by default the identity.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transform {
    pub(crate) rotation: [f32; 4],
    pub(crate) position: [f32; 3],
}

impl Default for Transform {
    fn default() -> Self {
        Self {
            rotation: [1.0, 0.0, 0.0, 0.0],
            position: [0.0; 3],
        }
    }
}

impl Transform {
    /// Rotation and position relative to `parent`.
    pub(crate) fn relative_to(&self, parent: &Self) -> ([f32; 4], [f32; 3]) {
        let inverse = conjugate(normalized(parent.rotation));
        let offset = [0, 1, 2].map(|i| f64::from(self.position[i]) - f64::from(parent.position[i]));
        (
            product(inverse, normalized(self.rotation)).map(|v| v as f32),
            rotate(inverse, offset).map(|v| v as f32),
        )
    }
}

/// World transforms of every joint of a pose; `parents` lists parents before children. A missing joint coincides with
/// its parent.
pub(crate) fn world_transforms(pose: &PoseUpdate, parents: &[i32]) -> Vec<Transform> {
    let mut world: Vec<Transform> = Vec::with_capacity(parents.len());
    for (id, parent) in parents.iter().enumerate() {
        let Transform { rotation, position } =
            pose.joint(id as u16)
                .map_or_else(Transform::default, |joint| Transform {
                    rotation: joint.rotation,
                    position: joint.position,
                });
        let transform = match usize::try_from(*parent) {
            Err(_) => Transform { rotation, position },
            Ok(parent) => {
                let above = world[parent];
                let turn = normalized(above.rotation);
                let offset = rotate(turn, position.map(f64::from));
                Transform {
                    rotation: product(turn, rotation.map(f64::from)).map(|v| v as f32),
                    position: [0, 1, 2].map(|i| above.position[i] + offset[i] as f32),
                }
            }
        };
        world.push(transform);
    }
    world
}

/// Distance from the first joint, in the sender's unit, that tells centimetres from metres: in centimetres most joints
/// of even a curled-up child are farther, in metres no joint is.
const CENTIMETRE_THRESHOLD: f32 = 3.0;

/// A body with fixed joints that is received joint by joint in world coordinates. The first complete frame gives the
/// bone lengths.
#[derive(Clone, Debug)]
pub(crate) struct WorldBody {
    /// The joints received in the current frame.
    joints: Vec<Option<Transform>>,
    skeleton: SkeletonUpdate,
    skeleton_sent: bool,
    /// Metres per unit of the sender's positions.
    metres_per_unit: f32,
    pub(crate) pose: PoseUpdate,
}

impl WorldBody {
    /// `rest` holds the joints' world rotations in T-pose; `parents` lists parents before children.
    pub(crate) fn new(names: &[&str], parents: &[i32], rest: &[[f32; 4]]) -> Self {
        let local = |(id, parent): (usize, &i32)| {
            usize::try_from(*parent).map_or(rest[id], |parent| {
                product(conjugate(normalized(rest[parent])), normalized(rest[id])).map(|v| v as f32)
            })
        };
        Self {
            joints: vec![None; names.len()],
            skeleton: SkeletonUpdate {
                names: names.iter().map(|name| (*name).to_owned()).collect(),
                parents: parents.to_vec(),
                offsets: vec![[0.0; 3]; names.len()],
                rest: parents.iter().enumerate().map(local).collect(),
                rate: None,
            },
            skeleton_sent: false,
            metres_per_unit: 1.0,
            pose: PoseUpdate::default(),
        }
    }

    /// Makes the next complete frame define the skeleton again.
    pub(crate) fn reset_skeleton(&mut self) {
        self.skeleton_sent = false;
    }

    /// Begins a frame.
    pub(crate) fn begin_frame(&mut self, rate: Option<f64>) {
        self.joints.fill(None);
        self.pose.clear();
        self.skeleton.rate = rate;
    }

    /// Detects metres or centimetres by the size of the body, until a skeleton has been sent.
    pub(crate) fn detect_unit(&mut self) {
        if !self.skeleton_sent {
            self.metres_per_unit = if self.is_in_centimetres() { 0.01 } else { 1.0 };
        }
    }

    fn is_in_centimetres(&self) -> bool {
        let Some(Some(first)) = self.joints.first() else {
            return false;
        };
        let is_far = |joint: &&Transform| {
            (0..3).any(|i| (joint.position[i] - first.position[i]).abs() > CENTIMETRE_THRESHOLD)
        };
        2 * self.joints.iter().flatten().filter(is_far).count() > self.joints.len()
    }

    /// Whether `result`, from [`WorldBody::finish_frame`], says that the sender has too few joints for a body even
    /// counting unusable ones: a tracked object, rather than a performer with a failed sensor.
    pub(crate) fn is_not_a_body(&self, result: &Result<(), WireError>) -> bool {
        matches!(result, Err(WireError::Partial { found, needed }) if *needed > found + self.pose.unusable as usize)
    }

    /// Sets one joint of the frame; an invalid transform is only counted.
    pub(crate) fn set_joint(&mut self, id: usize, rotation: [f32; 4], position: [f32; 3]) {
        if is_rotation(&rotation) && is_position(&position) {
            self.joints[id] = Some(Transform { rotation, position });
        } else {
            self.pose.unusable += 1;
        }
    }

    /// Ends the frame and delivers it, after the skeleton if that is new. A joint whose parent is missing is left out.
    ///
    /// # Errors
    /// [`WireError::Partial`] before the first complete frame.
    pub(crate) fn finish_frame(&mut self, on_update: &mut dyn FnMut(Update<'_>)) -> Result<(), WireError> {
        for joint in self.joints.iter_mut().flatten() {
            joint.position = joint.position.map(|v| v * self.metres_per_unit);
        }
        for (id, parent) in self.skeleton.parents.iter().enumerate() {
            let Some(joint) = self.joints[id] else { continue };
            let (rotation, position) = match usize::try_from(*parent) {
                Err(_) => {
                    self.pose.root = Some(joint.position);
                    (normalized(joint.rotation).map(|v| v as f32), joint.position)
                }
                Ok(parent) => match &self.joints[parent] {
                    Some(above) => joint.relative_to(above),
                    None => continue,
                },
            };
            self.pose.joints.push(Joint::new(id as u16, rotation, position));
        }
        if !self.skeleton_sent && self.pose.joints.len() == self.joints.len() {
            self.skeleton_sent = true;
            for (offset, joint) in self.skeleton.offsets.iter_mut().zip(&self.pose.joints).skip(1) {
                *offset = joint.position;
            }
            on_update(Update::Skeleton(&self.skeleton));
        }
        if !self.skeleton_sent {
            return Err(WireError::Partial {
                found: self.joints.iter().flatten().count(),
                needed: self.joints.len(),
            });
        }
        if !self.pose.joints.is_empty() {
            on_update(Update::Frame(&self.pose));
        }
        Ok(())
    }
}
