//! A posture without heading: where hands, feet, head and their neighbours are, seen from the hips.

use anticip_geometry::Quat;
use anticip_motion::CanonicalPose;
use anticip_motion::canonical::{HIPS, JOINT_COUNT, OFFSETS, PARENTS};

use super::RATE;

/// Numbers of a posture: ten joints, and two zeros that fill the lanes.
const WIDTH: usize = 32;
const LANES: usize = 8;

/// Metres along x, y, z of ten joints relative to the hips, where the hips face +z.
pub(super) type Posture = [f32; WIDTH];

/// Hands, feet and head; then what carries them.
const JOINTS: [usize; 10] = [9, 13, 16, 20, 5, 8, 12, 15, 19, 3];
/// The joints whose rotations carry those ten.
const CARRIERS: [usize; 14] = [1, 2, 3, 4, 6, 7, 8, 10, 11, 12, 14, 15, 18, 19];
/// Rotations of the joints that carry a posture, in whole multiples of 1/32767.
pub(super) type Carriers = [[i16; 4]; CARRIERS.len()];
/// By how much each of them is turned against what was rehearsed, in its parent's frame.
pub(super) type Turns = [Quat; CARRIERS.len()];
/// Nothing is turned.
pub(super) const UNTURNED: Turns = [Quat::IDENTITY; CARRIERS.len()];
/// The numbers of hands, feet and head.
pub(super) const ENDS: usize = 15;
/// A velocity is the slope of a line through so many postures before and after its middle.
pub(super) const HALF: usize = 3;

/// Turns canonical frames into postures. What is no rotation holds its last value.
#[derive(Debug, Clone)]
pub(super) struct Viewer {
    previous: [Quat; JOINT_COUNT],
    yaw: Quat,
}

impl Default for Viewer {
    fn default() -> Self {
        Self {
            previous: [Quat::IDENTITY; JOINT_COUNT],
            yaw: Quat::IDENTITY,
        }
    }
}

impl Viewer {
    pub(super) fn push(&mut self, pose: &CanonicalPose) -> Posture {
        self.push_without(&UNTURNED, pose)
    }

    /// The posture of a frame with these turns taken away.
    pub(super) fn push_without(&mut self, turned: &Turns, pose: &CanonicalPose) -> Posture {
        for (last, joint) in self.previous.iter_mut().zip(pose) {
            *last = Quat::from_array(joint.map(f64::from)).normalize_or(*last);
        }
        let hips = self.previous[HIPS];
        // Swing and twist: the twist of the hips about the vertical is where they face.
        self.yaw = Quat::new(hips.w, 0.0, hips.y, 0.0).normalize_or(self.yaw);
        let mut joints = self.previous;
        for (turn, j) in turned.iter().zip(CARRIERS) {
            joints[j] = turn.conj() * joints[j];
        }
        let (mut turns, mut places) = ([self.yaw.conj() * hips; JOINT_COUNT], [[0.0; 3]; JOINT_COUNT]);
        for j in 1..JOINT_COUNT {
            let parent = PARENTS[j] as usize;
            let bone = turns[parent].rotate(OFFSETS[j]);
            places[j] = std::array::from_fn(|i| places[parent][i] + bone[i]);
            turns[j] = turns[parent] * joints[j];
        }
        let mut out = [0.0; WIDTH];
        for (slots, j) in out.as_chunks_mut::<3>().0.iter_mut().zip(JOINTS) {
            *slots = places[j].map(|v| v as f32);
        }
        out
    }

    /// The carriers' rotations in the newest frame, as they came.
    pub(super) fn carriers(&self) -> Carriers {
        CARRIERS.map(|j| {
            self.previous[j]
                .to_array()
                .map(|v| (v * f64::from(i16::MAX)).round() as i16)
        })
    }
}

/// How each carrier is turned in a frame against another.
pub(super) fn between(now: &Carriers, then: &Carriers) -> Turns {
    let rotation = |of: [i16; 4]| Quat::from_array(of.map(f64::from)).normalize_or(Quat::IDENTITY);
    std::array::from_fn(|n| rotation(now[n]) * rotation(then[n]).conj())
}

/// Metres a second in the middle of the postures that `at` gives from 0 to twice [`HALF`]: their regression line.
pub(super) fn velocity<'a>(at: impl Fn(usize) -> &'a Posture) -> Posture {
    let squares: usize = (1..=HALF).map(|k| k * k).sum();
    let mut out = [0.0; WIDTH];
    for k in 1..=HALF {
        let weight = k as f32 * RATE as f32 / (2 * squares) as f32;
        for ((slot, after), before) in out.iter_mut().zip(at(HALF + k)).zip(at(HALF - k)) {
            *slot += weight * (after - before);
        }
    }
    out
}

/// The mean of those postures.
pub(super) fn middle<'a>(at: impl Fn(usize) -> &'a Posture) -> Posture {
    let mut out = [0.0; WIDTH];
    for k in 0..=2 * HALF {
        out.iter_mut().zip(at(k)).for_each(|(slot, v)| *slot += v);
    }
    out.map(|v| v / (2 * HALF + 1) as f32)
}

pub(super) fn dot(a: &Posture, b: &Posture) -> f32 {
    lanes(a, b, |x, y| x * y)
}

/// The squared distance.
pub(super) fn apart(a: &Posture, b: &Posture) -> f32 {
    lanes(a, b, |x, y| (x - y) * (x - y))
}

/// The sum over pairs of numbers, in an order that vectors of eight allow.
fn lanes(a: &Posture, b: &Posture, term: impl Fn(f32, f32) -> f32) -> f32 {
    let mut sums = [0.0; LANES];
    for (a, b) in a.as_chunks::<LANES>().0.iter().zip(b.as_chunks::<LANES>().0) {
        for (sum, (x, y)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += term(*x, *y);
        }
    }
    sums.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heading_is_not_seen_and_what_is_no_rotation_holds() {
        let mut pose: CanonicalPose = [[1.0, 0.0, 0.0, 0.0]; JOINT_COUNT];
        pose[11] = [0.8, 0.6, 0.0, 0.0];
        let mut viewer = Viewer::default();
        let ahead = viewer.push(&pose);
        assert!(ahead[0] > 0.6 && ahead[WIDTH - 1] == 0.0);
        let broken = [[f32::NAN; 4]; JOINT_COUNT];
        assert_eq!(viewer.push(&broken), ahead);
        pose[HIPS] = [0.6, 0.0, 0.8, 0.0];
        let turned = viewer.push(&pose);
        assert!(apart(&ahead, &turned) < 1e-10);
    }

    #[test]
    fn the_velocity_of_a_line_is_its_slope() {
        let line: [Posture; 7] = std::array::from_fn(|i| [0.02 * i as f32; WIDTH]);
        let v = velocity(|i| &line[i]);
        assert!(v.iter().all(|v| (v - 1.0).abs() < 1e-5));
        assert!((dot(&v, &v) - WIDTH as f32).abs() < 1e-3);
    }
}
