//! Solves the joints of a body from positions and rotations of a few trackers.

use anticip_geometry::Quat;
use anticip_wire::{Joint, PoseUpdate, SkeletonUpdate, TrackerUpdate};

use crate::canonical::{
    ARMS, HEAD, HIPS, HIPS_HEIGHT, JOINT_COUNT, JOINTS, LEGS, NECK, OFFSETS, PARENTS, SPINE, UPPER_CHEST,
};
use crate::inverse::{BACK, FORWARD, arm, leg, outwards};
use crate::names::{Meaning, Part, Side, meaning};
use crate::vector::{Vector, add, length, minus, scaled};

const UP: Vector = [0.0, 1.0, 0.0];
/// Height of the head above the hips of the canonical body, metres.
const HEAD_ABOVE_HIPS: f64 = 0.61;
/// Range of body sizes, relative to the canonical body.
const MIN_SIZE: f64 = 0.5;
const MAX_SIZE: f64 = 1.5;
/// How much an elbow hangs down, in addition to pointing back as it does when the arm swings here from the T-pose.
/// Chosen (and that the hand's rotation is not used) by the sound parameters of people in the training split.
const HANGING: f64 = 0.2;
/// Most that a shoulder is raised or lowered, metres.
const MAX_RAISED: f64 = 0.2;

type Rotations = [Option<Quat>; JOINT_COUNT];

/// A body of trackers.
///
/// The first rotation of each tracker is its joint's rest, and the first heading is forward, so wearers must start
/// standing straight. An arm's rest is hanging or spread, as it is then. Hips and a foot give the leg between them;
/// its length is that of the first frame, and the knee points where the thigh's tracker points, else where hips and
/// foot point. Hips, head and a hand give the torso, as a straight line, and the arm, whose length is also that of
/// the first frame. Such torso and limbs encode where head, hands and feet are, and little of how they bend, because
/// real people have other proportions.
#[derive(Clone, Debug, Default)]
pub struct Trackers {
    /// Names of the newest update, and the joint of each.
    names: Vec<String>,
    joints: Vec<Option<usize>>,
    facing: Option<Quat>,
    /// Rotation from each joint's first rotation to its rest.
    rest: [Option<Quat>; JOINT_COUNT],
    world: [Option<Quat>; JOINT_COUNT],
    positions: [Option<Vector>; JOINT_COUNT],
    /// Length of each leg's bones, metres.
    legs: [Option<f64>; 2],
    /// Length of each arm relative to the canonical one of this size; 0 while unknown.
    arms: [f64; 2],
    /// How much higher each shoulder is, metres.
    raised: [f64; 2],
    /// Whether the rest of each hand is known.
    hand_rest_known: [bool; 2],
    /// Size of the body relative to the canonical one.
    size: Option<f64>,
    /// First position of the head as seen from the hips.
    upright: Option<Vector>,
    position_only: u32,
    pose: PoseUpdate,
}

/// Upper arms and thighs (bit j).
const UPPER: u32 = (2 << ARMS[0]) | (2 << ARMS[1]) | (1 << LEGS[0]) | (1 << LEGS[1]);

impl Trackers {
    /// Skeleton of the poses that [`Self::solve`] returns.
    #[must_use]
    pub fn skeleton() -> SkeletonUpdate {
        SkeletonUpdate {
            names: JOINTS.iter().map(|name| (*name).to_owned()).collect(),
            parents: PARENTS.to_vec(),
            offsets: OFFSETS.map(|offset| offset.map(|v| v as f32)).to_vec(),
            rest: vec![[1.0, 0.0, 0.0, 0.0]; JOINT_COUNT],
            rate: None,
        }
    }

    /// Solves a frame. Returns the pose of the joints that are measured or encode where others are, and (bit j) which
    /// joints are the latter: with these the body's head, hands and feet are in place, and
    /// [`crate::Completion::with_position_only`] finds better rotations. `None` if the frame has no rotation.
    pub fn solve(&mut self, update: &TrackerUpdate) -> Option<(&PoseUpdate, u32)> {
        self.map_names(update);
        let mut rotations = [None; JOINT_COUNT];
        self.positions = [None; JOINT_COUNT];
        for (tracker, joint) in update.trackers.iter().zip(&self.joints) {
            let Some(joint) = *joint else { continue };
            rotations[joint] = tracker
                .rotation
                .and_then(|q| Quat::from_array(q.map(f64::from)).try_normalize());
            self.positions[joint] = tracker.position.map(|p| p.map(f64::from));
        }
        if rotations.iter().all(Option::is_none) {
            return None;
        }
        if self.facing.is_none()
            && let Some(facing) = self.find_facing(&rotations, update.forward_axis)
        {
            // What was learned without the whole body is learned again.
            *self = Self {
                names: std::mem::take(&mut self.names),
                joints: std::mem::take(&mut self.joints),
                positions: self.positions,
                facing: Some(facing),
                ..Self::default()
            };
        }
        let facing = self.facing.unwrap_or(Quat::IDENTITY);
        for position in self.positions.iter_mut().flatten() {
            *position = facing.rotate(*position);
        }
        let mut measured = 0_u32;
        for (joint, rotation) in rotations.iter().enumerate() {
            let Some(rotation) = rotation else { continue };
            let current = facing * *rotation;
            let rest = match self.rest[joint] {
                Some(rest) => rest,
                None => current.conj() * self.first_rotation(joint),
            };
            self.rest[joint] = Some(rest);
            self.world[joint] = Some((current * rest).normalize_or(Quat::IDENTITY));
            measured |= 1 << joint;
        }
        if let (Some(position), Some(hips)) = (self.positions[HIPS], rotations[HIPS].and(self.world[HIPS])) {
            let torso = self.solve_torso(position, hips, &rotations);
            let limbs = (0..2).fold(0, |bits, side| {
                bits | self.solve_leg(side, position, hips, &rotations)
                    | self.solve_arm(side, position, hips, &rotations)
            });
            // A limb whose upper joint has a tracker is measured.
            let upper = measured & UPPER;
            measured |= limbs & (upper | (upper << 1));
            self.position_only = (self.position_only & !measured) | torso | (limbs & !measured);
            measured |= torso | limbs;
        }
        self.write_pose(update, measured);
        Some((&self.pose, self.position_only))
    }

    /// Looks up the joints of the trackers; of two on one joint the first counts.
    fn map_names(&mut self, update: &TrackerUpdate) {
        let same = self.names.len() == update.trackers.len()
            && self
                .names
                .iter()
                .zip(&update.trackers)
                .all(|(name, t)| *name == t.name);
        if same {
            return;
        }
        self.names = update.trackers.iter().map(|t| t.name.clone()).collect();
        self.joints.clear();
        for name in &self.names {
            let joint = joint(name).filter(|joint| !self.joints.contains(&Some(*joint)));
            self.joints.push(joint);
        }
    }

    /// Rotation of the room that makes the body face +z: by the direction of its hips or its head, else by its left
    /// and right sides; `None` while neither is known.
    fn find_facing(&self, rotations: &Rotations, forward_axis: Option<[f32; 3]>) -> Option<Quat> {
        let body_forward = |forward_axis: [f32; 3]| {
            Some(
                rotations[HIPS]
                    .or(rotations[HEAD])?
                    .rotate(forward_axis.map(f64::from)),
            )
        };
        let sides = [ARMS, LEGS]
            .into_iter()
            .flat_map(|[l, r]| (0..4).map(move |k| (l + k, r + k)));
        let across = sides.filter_map(|(l, r)| Some(minus(self.positions[l]?, self.positions[r]?)));
        // Left crossed with up.
        let sideways = across.reduce(add).map(|[x, _, z]| [-z, 0.0, x]);
        let [x, _, z] = forward_axis.and_then(body_forward).or(sideways)?;
        Some(Quat::from_axis_angle(UP, -x.atan2(z)))
    }

    /// World rotation that a joint has in its first frame. An arm hangs, unless its lowest known position is more
    /// outward than down from the shoulder. A hand with a position is set by [`Self::solve_arm`].
    fn first_rotation(&mut self, joint: usize) -> Quat {
        let Some(side) = (0..2).find(|side| (1..=3).contains(&joint.wrapping_sub(ARMS[*side]))) else {
            return Quat::IDENTITY;
        };
        let [upper, lower, hand] = [1, 2, 3].map(|below| ARMS[side] + below);
        if joint == hand {
            if self.positions[hand].is_some() {
                return Quat::IDENTITY;
            }
            self.hand_rest_known[side] = true;
        }
        let size = self.positions[HIPS].map_or(1.0, |hips| self.size(hips));
        let at_rest = |joint: usize| {
            let parent = |joint: &usize| usize::try_from(PARENTS[*joint]).ok();
            std::iter::successors(Some(joint), parent).fold([0.0; 3], |sum, j| add(sum, OFFSETS[j]))
        };
        let shoulder = [HIPS, HEAD, UPPER_CHEST].into_iter().find_map(|from| {
            let offset = scaled(minus(at_rest(upper), at_rest(from)), size);
            Some(add(
                self.positions[from]?,
                self.world[from].map_or(offset, |rotation| rotation.rotate(offset)),
            ))
        });
        let position = [hand, lower, upper]
            .into_iter()
            .find_map(|joint| self.positions[joint]);
        match position
            .zip(shoulder)
            .map(|(position, shoulder)| minus(position, shoulder))
        {
            Some([x, y, z]) if x.hypot(z) > -y => Quat::IDENTITY,
            _ => Quat::from_two_vectors(outwards(side), scaled(UP, -1.0)),
        }
    }

    /// Solves thigh and shin of a leg whose foot has a position; returns the solved joints as bits.
    fn solve_leg(&mut self, side: usize, position: Vector, hips: Quat, rotations: &Rotations) -> u32 {
        let [thigh, shin, foot] = [LEGS[side], LEGS[side] + 1, LEGS[side] + 2];
        let Some(ankle) = self.positions[foot] else {
            return 0;
        };
        let hip = add(position, hips.rotate(OFFSETS[thigh]));
        let bone = *self.legs[side].get_or_insert(length(minus(ankle, hip)) / 2.0);
        // The knee points as the thigh's tracker does, else as hips and foot do.
        let ahead = match rotations[thigh].and(self.world[thigh]) {
            Some(rotation) => rotation.rotate(FORWARD),
            None => add(
                hips.rotate(FORWARD),
                self.world[foot].unwrap_or(hips).rotate(FORWARD),
            ),
        };
        self.set_bones(leg(hip, ankle, ahead, [bone; 2]), [thigh, shin])
    }

    /// Solves upper and lower arm of a side whose hand has a position; returns the solved joints as bits.
    fn solve_arm(&mut self, side: usize, position: Vector, hips: Quat, rotations: &Rotations) -> u32 {
        let [upper, lower, hand] = [ARMS[side] + 1, ARMS[side] + 2, ARMS[side] + 3];
        let Some(wrist) = self.positions[hand] else {
            return 0;
        };
        let size = self.size(position);
        let chest = self.world[UPPER_CHEST].unwrap_or(hips);
        let straight =
            |joints: &[usize]| scaled(joints.iter().fold([0.0; 3], |sum, j| add(sum, OFFSETS[*j])), size);
        let torso = add(position, hips.rotate(straight(&[SPINE])));
        let shoulder = straight(&[SPINE + 1, UPPER_CHEST, ARMS[side], upper]);
        let mut shoulder = add(torso, chest.rotate(shoulder));
        let mut offset = minus(wrist, shoulder);
        let relative = chest.conj().rotate(offset);
        let is_spread = relative[0].abs() > 2.0 * relative[1].abs();
        if self.arms[side] == 0.0 && is_spread {
            // An arm that is spread in its first frame is as high as its shoulder.
            self.raised[side] = relative[1].clamp(-MAX_RAISED, MAX_RAISED);
        }
        shoulder = add(shoulder, chest.rotate(scaled(UP, self.raised[side])));
        offset = minus(wrist, shoulder);
        let lengths = [OFFSETS[lower][0].abs(), OFFSETS[hand][0].abs()];
        let longest = size * (lengths[0] + lengths[1]);
        // The arm is stretched in its first frame, hanging or spread; if it reaches farther later, it is longer.
        let reached = (length(offset) / longest).min(MAX_SIZE);
        self.arms[side] = self.arms[side].max(reached).max(MIN_SIZE);
        let lengths = lengths.map(|length| length * size * self.arms[side]);
        let out = outwards(side);
        let elbow = match rotations[upper].and(self.world[upper]) {
            Some(rotation) => rotation.rotate(BACK),
            None => {
                let relative = chest.conj().rotate(offset);
                let swung = chest.rotate(Quat::from_two_vectors(out, relative).rotate(BACK));
                add(swung, chest.rotate(scaled(UP, -HANGING)))
            }
        };
        let bones = arm(shoulder, wrist, elbow, lengths, out);
        if let (Some([_, forearm]), Some(_), false) = (bones, rotations[hand], self.hand_rest_known[side]) {
            self.hand_rest_known[side] = true;
            if !is_spread {
                // The hand's first rotation is that of the arm as it is now, not that of the T-pose.
                self.rest[hand] = self.rest[hand].map(|rest| rest * forearm);
                self.world[hand] = Some(forearm);
            }
        }
        self.set_bones(bones, [upper, lower])
    }

    /// Size of the body: by its head above its hips, else by its hips above the floor.
    fn size(&mut self, hips: Vector) -> f64 {
        *self.size.get_or_insert_with(|| {
            let size = self.positions[HEAD].map_or(hips[1] / HIPS_HEIGHT, |head| {
                (head[1] - hips[1]) / HEAD_ABOVE_HIPS
            });
            if (MIN_SIZE..=MAX_SIZE).contains(&size) {
                size
            } else {
                1.0
            }
        })
    }

    /// Solves the torso: straight from the hips to the head, or as the chest's tracker; returns the solved joints as
    /// bits.
    fn solve_torso(&mut self, position: Vector, hips: Quat, rotations: &Rotations) -> u32 {
        let chest = rotations[UPPER_CHEST].and(self.world[UPPER_CHEST]);
        let leaning = self.positions[HEAD].and_then(|head| {
            let relative = hips.conj().rotate(minus(head, position));
            let upright = *self.upright.get_or_insert(relative);
            let above = OFFSETS[SPINE..=HEAD].iter().copied().reduce(add)?;
            // The canonical body leans about its hips so that its head moves like this one.
            let head = Quat::from_two_vectors(upright, relative).rotate(above);
            let lean = Quat::from_two_vectors(minus(above, OFFSETS[SPINE]), minus(head, OFFSETS[SPINE]));
            Some(hips * lean)
        });
        let Some(rotation) = chest.or(leaning) else {
            return 0;
        };
        let joints = (SPINE..=NECK).filter(|joint| rotations[*joint].is_none());
        joints.fold(0, |bits, joint| {
            self.world[joint] = Some(rotation);
            bits | 1 << joint
        })
    }

    /// Sets the world rotations of two bones, if solved; returns the joints as bits.
    fn set_bones(&mut self, solved: Option<[Quat; 2]>, joints: [usize; 2]) -> u32 {
        let Some(solved) = solved else { return 0 };
        for (joint, rotation) in joints.into_iter().zip(solved) {
            self.world[joint] = Some(rotation);
        }
        joints.iter().fold(0, |bits, joint| bits | 1 << joint)
    }

    /// Writes the pose of the measured joints, each local to the nearest joint above with a known rotation.
    fn write_pose(&mut self, update: &TrackerUpdate, measured: u32) {
        self.pose.clear();
        (self.pose.seq, self.pose.time) = (update.seq, update.time);
        self.pose.root = self.positions[HIPS].map(|position| position.map(|v| v as f32));
        let mut global = [Quat::IDENTITY; JOINT_COUNT];
        for joint in 0..JOINT_COUNT {
            let parent = usize::try_from(PARENTS[joint]).map_or(Quat::IDENTITY, |parent| global[parent]);
            global[joint] = self.world[joint].unwrap_or(parent);
            if measured & 1 << joint != 0 {
                let local = parent.conj() * global[joint];
                let rotation = local.to_array().map(|v| v as f32);
                self.pose
                    .joints
                    .push(Joint::new(joint as u16, rotation, [0.0; 3]));
            }
        }
    }
}

/// Canonical joint of a tracker with this name.
fn joint(name: &str) -> Option<usize> {
    if let Some(joint) = JOINTS.iter().position(|joint| *joint == name) {
        return Some(joint);
    }
    let Meaning { side, part } = meaning(name)?;
    let of = |limbs: [usize; 2], below: usize| match side? {
        Side::Left => Some(limbs[0] + below),
        Side::Right => Some(limbs[1] + below),
    };
    match part {
        Part::Hips => Some(HIPS),
        // A tracker worn on the waist is often called that.
        Part::Torso if name.to_ascii_lowercase().contains("waist") => Some(HIPS),
        Part::Torso => Some(UPPER_CHEST),
        Part::Neck => Some(NECK),
        Part::Head => Some(HEAD),
        Part::Clavicle | Part::Shoulder => of(ARMS, 0),
        Part::UpperArm => of(ARMS, 1),
        Part::LowerArm => of(ARMS, 2),
        Part::Hand => of(ARMS, 3),
        Part::UpperLeg | Part::Hip => of(LEGS, 0),
        Part::LowerLeg | Part::Leg => of(LEGS, 1),
        Part::Ankle | Part::Foot => of(LEGS, 2),
        Part::Toes => of(LEGS, 3),
    }
}

#[cfg(test)]
mod tests;
