//! Places and turns of a few parts of a body, solved into its joints.

use anticip_geometry::Quat;
use anticip_wire::{Joint, PoseUpdate, SkeletonUpdate, TrackerUpdate};

use crate::canonical::{
    ARMS, HEAD, HIPS, HIPS_HEIGHT, JOINT_COUNT, JOINTS, LEGS, NECK, OFFSETS, PARENTS, SPINE, UPPER_CHEST,
};
use crate::inverse::{BACK, FORWARD, arm, leg, outwards};
use crate::names::{Meaning, Part, Side, meaning};
use crate::vector::{Vector, add, length, minus, scaled};

const UP: Vector = [0.0, 1.0, 0.0];
/// From hips to head of the canonical body, metres, and how much larger or smaller people are.
const HEAD_ABOVE: f64 = 0.61;
const SIZES: (f64, f64) = (0.5, 1.5);
/// How much an elbow hangs down, beside pointing back as it does when the arm swings here out of the T-pose. This and what
/// the hand says (nothing) were chosen by the sound parameters of people who teach the model.
const HANGING: f64 = 0.2;
/// Metres that a shoulder is higher or lower than usual, at most.
const RAISED: f64 = 0.2;

type Turns = [Option<Quat>; JOINT_COUNT];

/// A body of trackers.
///
/// The first rotation of each counts as its joint's rest, and what is ahead then is forward: whoever wears them begins
/// standing straight. An arm's rest is as it then is, hanging or spread. Hips and a foot give the leg
/// between them, its length from that first frame, the knee towards where the thigh points, else hips and foot; hips,
/// head and a hand give the torso as a straight line, and the arm, its length from that first frame too. Such limbs and
/// torso say where head, hands and feet are, and little of how they bend: real people have other proportions.
#[derive(Clone, Debug, Default)]
pub struct Trackers {
    /// The names as they came last, and the joint of each.
    names: Vec<String>,
    joints: Vec<Option<usize>>,
    facing: Option<Quat>,
    /// What turns each joint's first rotation into its rest.
    rest: [Option<Quat>; JOINT_COUNT],
    world: [Option<Quat>; JOINT_COUNT],
    places: [Option<Vector>; JOINT_COUNT],
    legs: [Option<f64>; 2],
    /// How long each arm is as a part of the usual, 0 before it is known, and how much higher its shoulder (metres).
    arms: [f64; 2],
    raised: [f64; 2],
    /// Whether each hand's rest is known.
    hands: [bool; 2],
    /// How large the body is, as a part of the canonical one.
    size: Option<f64>,
    /// The head as seen from the hips at first.
    upright: Option<Vector>,
    placed: u32,
    pose: PoseUpdate,
}

/// Upper arms and thighs (bit j).
const UPPER: u32 = (2 << ARMS[0]) | (2 << ARMS[1]) | (1 << LEGS[0]) | (1 << LEGS[1]);

impl Trackers {
    /// The body that [`Self::solve`] speaks of.
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

    /// The joints that a frame measures or that say where others are, and (bit j) which are the latter: a body of them
    /// has its head, hands and feet in place, by which [`crate::Completion::placed`] finds better ones.
    /// `None` where the frame measures none.
    pub fn solve(&mut self, update: &TrackerUpdate) -> Option<(&PoseUpdate, u32)> {
        self.name(update);
        let mut turns = [None; JOINT_COUNT];
        self.places = [None; JOINT_COUNT];
        for (tracker, joint) in update.trackers.iter().zip(&self.joints) {
            let Some(joint) = *joint else { continue };
            turns[joint] = tracker
                .rotation
                .and_then(|q| Quat::from_array(q.map(f64::from)).try_normalize());
            self.places[joint] = tracker.position.map(|p| p.map(f64::from));
        }
        if turns.iter().all(Option::is_none) {
            return None;
        }
        if self.facing.is_none()
            && let Some(facing) = self.face(&turns, update.ahead)
        {
            // Whoever was seen in parts before is seen anew.
            *self = Self {
                names: std::mem::take(&mut self.names),
                joints: std::mem::take(&mut self.joints),
                places: self.places,
                facing: Some(facing),
                ..Self::default()
            };
        }
        let facing = self.facing.unwrap_or(Quat::IDENTITY);
        for place in self.places.iter_mut().flatten() {
            *place = facing.rotate(*place);
        }
        let mut measured = 0_u32;
        for (joint, turn) in turns.iter().enumerate() {
            let Some(turn) = turn else { continue };
            let here = facing * *turn;
            let rest = match self.rest[joint] {
                Some(rest) => rest,
                None => here.conj() * self.begun(joint),
            };
            self.rest[joint] = Some(rest);
            self.world[joint] = Some((here * rest).normalize_or(Quat::IDENTITY));
            measured |= 1 << joint;
        }
        if let (Some(place), Some(turn)) = (self.places[HIPS], turns[HIPS].and(self.world[HIPS])) {
            let torso = self.solve_torso(place, turn, &turns);
            let limbs = (0..2).fold(0, |bits, side| {
                bits | self.solve_leg(side, place, turn, &turns) | self.solve_arm(side, place, turn, &turns)
            });
            // A limb whose upper joint was told is measured.
            let upper = measured & UPPER;
            measured |= limbs & (upper | (upper << 1));
            self.placed = (self.placed & !measured) | torso | (limbs & !measured);
            measured |= torso | limbs;
        }
        self.tell(update, measured);
        Some((&self.pose, self.placed))
    }

    /// Looks up which joints the trackers are on; of two on one joint the first.
    fn name(&mut self, update: &TrackerUpdate) {
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

    /// What turns the room so that the body faces +z: by where its hips, or its head, look, else by its left and its
    /// right; `None` before either is known.
    fn face(&self, turns: &Turns, ahead: Option<[f32; 3]>) -> Option<Quat> {
        let looks = |ahead: [f32; 3]| Some(turns[HIPS].or(turns[HEAD])?.rotate(ahead.map(f64::from)));
        let sides = [ARMS, LEGS]
            .into_iter()
            .flat_map(|[l, r]| (0..4).map(move |k| (l + k, r + k)));
        let apart = sides.filter_map(|(l, r)| Some(minus(self.places[l]?, self.places[r]?)));
        // Left crossed with up.
        let sideways = apart.reduce(add).map(|[x, _, z]| [-z, 0.0, x]);
        let [x, _, z] = ahead.and_then(looks).or(sideways)?;
        Some(Quat::from_axis_angle(UP, -x.atan2(z)))
    }

    /// How a joint is turned in the world when its first rotation comes: an arm hangs unless its place, the lowest that
    /// is known, is more out than down from the shoulder. A hand with a place is turned by [`Self::solve_arm`].
    fn begun(&mut self, joint: usize) -> Quat {
        let Some(side) = (0..2).find(|side| (1..=3).contains(&joint.wrapping_sub(ARMS[*side]))) else {
            return Quat::IDENTITY;
        };
        let [upper, lower, hand] = [1, 2, 3].map(|below| ARMS[side] + below);
        if joint == hand {
            if self.places[hand].is_some() {
                return Quat::IDENTITY;
            }
            self.hands[side] = true;
        }
        let size = self.places[HIPS].map_or(1.0, |hips| self.size(hips));
        let at_rest = |joint: usize| {
            let above = |joint: &usize| usize::try_from(PARENTS[*joint]).ok();
            std::iter::successors(Some(joint), above).fold([0.0; 3], |sum, j| add(sum, OFFSETS[j]))
        };
        let shoulder = [HIPS, HEAD, UPPER_CHEST].into_iter().find_map(|from| {
            let there = scaled(minus(at_rest(upper), at_rest(from)), size);
            Some(add(
                self.places[from]?,
                self.world[from].map_or(there, |turn| turn.rotate(there)),
            ))
        });
        let place = [hand, lower, upper]
            .into_iter()
            .find_map(|joint| self.places[joint]);
        match place
            .zip(shoulder)
            .map(|(place, shoulder)| minus(place, shoulder))
        {
            Some([x, y, z]) if x.hypot(z) > -y => Quat::IDENTITY,
            _ => Quat::from_two_vectors(outwards(side), scaled(UP, -1.0)),
        }
    }

    /// Thigh and shin of the leg whose foot is known, as bits.
    fn solve_leg(&mut self, side: usize, place: Vector, hips: Quat, turns: &Turns) -> u32 {
        let [thigh, shin, foot] = [LEGS[side], LEGS[side] + 1, LEGS[side] + 2];
        let Some(ankle) = self.places[foot] else { return 0 };
        let hip = add(place, hips.rotate(OFFSETS[thigh]));
        let bone = *self.legs[side].get_or_insert(length(minus(ankle, hip)) / 2.0);
        // A thigh that was told knows where its knee points; else hips and foot do.
        let ahead = match turns[thigh].and(self.world[thigh]) {
            Some(turn) => turn.rotate(FORWARD),
            None => add(
                hips.rotate(FORWARD),
                self.world[foot].unwrap_or(hips).rotate(FORWARD),
            ),
        };
        self.bones(leg(hip, ankle, ahead, [bone; 2]), [thigh, shin])
    }

    /// Upper and lower arm of the side whose hand is known, as bits.
    fn solve_arm(&mut self, side: usize, place: Vector, hips: Quat, turns: &Turns) -> u32 {
        let [upper, lower, hand] = [ARMS[side] + 1, ARMS[side] + 2, ARMS[side] + 3];
        let Some(wrist) = self.places[hand] else { return 0 };
        let size = self.size(place);
        let chest = self.world[UPPER_CHEST].unwrap_or(hips);
        let straight =
            |joints: &[usize]| scaled(joints.iter().fold([0.0; 3], |sum, j| add(sum, OFFSETS[*j])), size);
        let torso = add(place, hips.rotate(straight(&[SPINE])));
        let shoulder = straight(&[SPINE + 1, UPPER_CHEST, ARMS[side], upper]);
        let mut shoulder = add(torso, chest.rotate(shoulder));
        let mut apart = minus(wrist, shoulder);
        let seen = chest.conj().rotate(apart);
        let spread = seen[0].abs() > 2.0 * seen[1].abs();
        if self.arms[side] == 0.0 && spread {
            // Spread at first, it is as high as its shoulder.
            self.raised[side] = seen[1].clamp(-RAISED, RAISED);
        }
        shoulder = add(shoulder, chest.rotate(scaled(UP, self.raised[side])));
        apart = minus(wrist, shoulder);
        let lengths = [OFFSETS[lower][0].abs(), OFFSETS[hand][0].abs()];
        let longest = size * (lengths[0] + lengths[1]);
        // Stretched at first, as it hangs or is spread; one that has reached farther is longer.
        let reached = (length(apart) / longest).min(SIZES.1);
        self.arms[side] = self.arms[side].max(reached).max(SIZES.0);
        let lengths = lengths.map(|length| length * size * self.arms[side]);
        let out = outwards(side);
        let elbow = match turns[upper].and(self.world[upper]) {
            Some(turn) => turn.rotate(BACK),
            None => {
                let seen = chest.conj().rotate(apart);
                let swung = chest.rotate(Quat::from_two_vectors(out, seen).rotate(BACK));
                add(swung, chest.rotate(scaled(UP, -HANGING)))
            }
        };
        let bones = arm(shoulder, wrist, elbow, lengths, out);
        if let (Some([_, forearm]), Some(_), false) = (bones, turns[hand], self.hands[side]) {
            self.hands[side] = true;
            if !spread {
                // Its first rotation is that of the arm as it is now, and not the T-pose's.
                self.rest[hand] = self.rest[hand].map(|rest| rest * forearm);
                self.world[hand] = Some(forearm);
            }
        }
        self.bones(bones, [upper, lower])
    }

    /// How large the body is: by its head above its hips, else by its hips above the floor.
    fn size(&mut self, hips: Vector) -> f64 {
        *self.size.get_or_insert_with(|| {
            let tall =
                self.places[HEAD].map_or(hips[1] / HIPS_HEIGHT, |head| (head[1] - hips[1]) / HEAD_ABOVE);
            if (SIZES.0..=SIZES.1).contains(&tall) {
                tall
            } else {
                1.0
            }
        })
    }

    /// The torso, straight from the hips' end to the head, or as the chest was told; as bits.
    fn solve_torso(&mut self, place: Vector, hips: Quat, turns: &Turns) -> u32 {
        let chest = turns[UPPER_CHEST].and(self.world[UPPER_CHEST]);
        let leaning = self.places[HEAD].and_then(|head| {
            let seen = hips.conj().rotate(minus(head, place));
            let upright = *self.upright.get_or_insert(seen);
            let above = OFFSETS[SPINE..=HEAD].iter().copied().reduce(add)?;
            // As the canonical body leans about its hips when its head does as this one's.
            let head = Quat::from_two_vectors(upright, seen).rotate(above);
            let lean = Quat::from_two_vectors(minus(above, OFFSETS[SPINE]), minus(head, OFFSETS[SPINE]));
            Some(hips * lean)
        });
        let Some(turn) = chest.or(leaning) else { return 0 };
        let joints = (SPINE..=NECK).filter(|joint| turns[*joint].is_none());
        joints.fold(0, |bits, joint| {
            self.world[joint] = Some(turn);
            bits | 1 << joint
        })
    }

    fn bones(&mut self, found: Option<[Quat; 2]>, joints: [usize; 2]) -> u32 {
        let Some(found) = found else { return 0 };
        for (joint, turn) in joints.into_iter().zip(found) {
            self.world[joint] = Some(turn);
        }
        joints.iter().fold(0, |bits, joint| bits | 1 << joint)
    }

    /// Writes the frame: what is measured turns within the next joint above that ever was.
    fn tell(&mut self, update: &TrackerUpdate, measured: u32) {
        self.pose.clear();
        (self.pose.seq, self.pose.time) = (update.seq, update.time);
        self.pose.root = self.places[HIPS].map(|place| place.map(|v| v as f32));
        let mut whole = [Quat::IDENTITY; JOINT_COUNT];
        for joint in 0..JOINT_COUNT {
            let above = usize::try_from(PARENTS[joint]).map_or(Quat::IDENTITY, |parent| whole[parent]);
            whole[joint] = self.world[joint].unwrap_or(above);
            if measured & 1 << joint != 0 {
                let local = above.conj() * whole[joint];
                self.pose.joints.push(Joint {
                    id: joint as u16,
                    rotation: local.to_array().map(|v| v as f32),
                    position: [0.0; 3],
                    fresh: true,
                });
            }
        }
    }
}

/// The canonical joint that a tracker of this name is on.
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
        // Who wears one on the waist calls it that.
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
