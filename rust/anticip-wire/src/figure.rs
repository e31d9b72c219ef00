//! Bodies whose joints are told in the world: made local to their parents, and the way back.

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

fn unit(q: [f32; 4]) -> [f64; 4] {
    let q = q.map(f64::from);
    let norm = q.iter().map(|v| v * v).sum::<f64>().sqrt();
    q.map(|v| v / norm)
}

/// The rotation of degrees about y, x and z, turned in that order.
pub(crate) fn turned(degrees: [f32; 3]) -> [f32; 4] {
    let [y, x, z] = degrees.map(|d| (f64::from(d) / 2.0).to_radians().sin_cos());
    let about_y = [y.1, 0.0, y.0, 0.0];
    let about_x = [x.1, x.0, 0.0, 0.0];
    let about_z = [z.1, 0.0, 0.0, z.0];
    product(product(about_y, about_x), about_z).map(|v| v as f32)
}

/// The way back.
pub(crate) fn degrees(q: [f32; 4]) -> [f32; 3] {
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
        // Straight up or down the two turn about the same axis: all of it is one's.
        ((-2.0 * (x * z - w * y)).atan2(1.0 - 2.0 * (y * y + z * z)), 0.0)
    };
    [about_y, about_x, about_z].map(|v| v.to_degrees() as f32)
}

/// Where a joint is in the world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    pub(crate) rotation: [f32; 4],
    pub(crate) position: [f32; 3],
}

impl Placed {
    /// Rotation and position relative to `parent`.
    pub(crate) fn within(&self, parent: &Self) -> ([f32; 4], [f32; 3]) {
        let back = conjugate(unit(parent.rotation));
        let apart = [0, 1, 2].map(|i| f64::from(self.position[i]) - f64::from(parent.position[i]));
        (
            product(back, unit(self.rotation)).map(|v| v as f32),
            rotate(back, apart).map(|v| v as f32),
        )
    }
}

/// Where every joint of a pose is; joints in order, parents first. A joint that is left out is where its parent is.
pub(crate) fn place(pose: &PoseUpdate, parents: &[i32]) -> Vec<Placed> {
    let mut placed: Vec<Placed> = Vec::with_capacity(parents.len());
    for (id, parent) in parents.iter().enumerate() {
        let (rotation, position) = pose
            .joint(id as u16)
            .map_or(([1.0, 0.0, 0.0, 0.0], [0.0; 3]), |j| (j.rotation, j.position));
        let here = match usize::try_from(*parent) {
            Err(_) => Placed { rotation, position },
            Ok(parent) => {
                let above = placed[parent];
                let turn = unit(above.rotation);
                let moved = rotate(turn, position.map(f64::from));
                Placed {
                    rotation: product(turn, rotation.map(f64::from)).map(|v| v as f32),
                    position: [0, 1, 2].map(|i| above.position[i] + moved[i] as f32),
                }
            }
        };
        placed.push(here);
    }
    placed
}

/// Most joints are farther than so many centimetres from the first one, also of a child who is rolled up, and none is
/// farther than so many metres.
const REACH: f32 = 3.0;

/// A body of fixed joints, told joint by joint in the world. Its bones' lengths are those of the first whole frame.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    joints: Vec<Option<Placed>>,
    skeleton: SkeletonUpdate,
    skeleton_sent: bool,
    /// Metres of what places are told in.
    unit: f32,
    pub(crate) pose: PoseUpdate,
}

impl Figure {
    /// `rest` are the joints' rotations in the world in T-pose; parents come before their children.
    pub(crate) fn new(names: &[&str], parents: &[i32], rest: &[[f32; 4]]) -> Self {
        let local = |(id, parent): (usize, &i32)| {
            usize::try_from(*parent).map_or(rest[id], |parent| {
                product(conjugate(unit(rest[parent])), unit(rest[id])).map(|v| v as f32)
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
            unit: 1.0,
            pose: PoseUpdate::default(),
        }
    }

    /// The next whole frame tells the body anew.
    pub(crate) fn forget(&mut self) {
        self.skeleton_sent = false;
    }

    /// Begins a frame.
    pub(crate) fn begin(&mut self, rate: Option<f64>) {
        self.joints.fill(None);
        self.pose.clear();
        self.skeleton.rate = rate;
    }

    /// Takes metres or centimetres for what places are told in, as the sizes of the body say until one is known.
    pub(crate) fn guess_unit(&mut self) {
        if !self.skeleton_sent {
            self.unit = if self.is_in_centimetres() { 0.01 } else { 1.0 };
        }
    }

    fn is_in_centimetres(&self) -> bool {
        let Some(Some(first)) = self.joints.first() else {
            return false;
        };
        let is_far = |joint: &&Placed| (0..3).any(|i| (joint.position[i] - first.position[i]).abs() > REACH);
        2 * self.joints.iter().flatten().filter(is_far).count() > self.joints.len()
    }

    /// Whether what [`Figure::end`] says of a frame is that it has too few joints for a body, those included that are
    /// there but unusable: an object, not somebody of whom a sensor fails.
    pub(crate) fn is_no_body(&self, told: &Result<(), WireError>) -> bool {
        matches!(told, Err(WireError::Partial { found, needed }) if *needed > found + self.pose.unusable as usize)
    }

    /// Takes one joint of the frame.
    pub(crate) fn put(&mut self, id: usize, rotation: [f32; 4], position: [f32; 3]) {
        if is_rotation(&rotation) && is_position(&position) {
            self.joints[id] = Some(Placed { rotation, position });
        } else {
            self.pose.unusable += 1;
        }
    }

    /// Ends the frame and hands it on, the body before it where that is new. A joint without its parent is left out.
    ///
    /// # Errors
    /// [`WireError::Partial`] before the first whole frame.
    pub(crate) fn end(&mut self, take: &mut dyn FnMut(Update<'_>)) -> Result<(), WireError> {
        for joint in self.joints.iter_mut().flatten() {
            joint.position = joint.position.map(|v| v * self.unit);
        }
        for (id, parent) in self.skeleton.parents.iter().enumerate() {
            let Some(here) = self.joints[id] else { continue };
            let (rotation, position) = match usize::try_from(*parent) {
                Err(_) => {
                    self.pose.root = Some(here.position);
                    (unit(here.rotation).map(|v| v as f32), here.position)
                }
                Ok(parent) => match &self.joints[parent] {
                    Some(above) => here.within(above),
                    None => continue,
                },
            };
            self.pose.joints.push(Joint {
                id: id as u16,
                rotation,
                position,
                fresh: true,
            });
        }
        if !self.skeleton_sent && self.pose.joints.len() == self.joints.len() {
            self.skeleton_sent = true;
            for (offset, joint) in self.skeleton.offsets.iter_mut().zip(&self.pose.joints).skip(1) {
                *offset = joint.position;
            }
            take(Update::Skeleton(&self.skeleton));
        }
        if !self.skeleton_sent {
            return Err(WireError::Partial {
                found: self.joints.iter().flatten().count(),
                needed: self.joints.len(),
            });
        }
        if !self.pose.joints.is_empty() {
            take(Update::Frame(&self.pose));
        }
        Ok(())
    }
}
