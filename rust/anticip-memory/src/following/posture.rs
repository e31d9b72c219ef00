//! A posture without heading: positions of hands, feet, head and their neighbouring joints, relative to the
//! hips.

use anticip_geometry::Quat;
use anticip_motion::CanonicalPose;
use anticip_motion::canonical::{HIPS, JOINT_COUNT, OFFSETS, PARENTS};

use super::RATE;

/// Length of a posture: ten joints, padded to full SIMD lanes by two zeros.
const WIDTH: usize = 32;
const LANES: usize = 8;

/// Positions in metres (x, y, z) of ten joints relative to the hips, turned so that the hips face +z.
pub(super) type Posture = [f32; WIDTH];

/// The joints: hands, feet and head, then their neighbours.
const JOINTS: [usize; 10] = [9, 13, 16, 20, 5, 8, 12, 15, 19, 3];
/// The joints whose rotations move those ten.
const CARRIERS: [usize; 14] = [1, 2, 3, 4, 6, 7, 8, 10, 11, 12, 14, 15, 18, 19];
/// Rotations of a pose in units of 1/32767.
pub type KeptPose = [[i16; 4]; JOINT_COUNT];
/// Rotation of each carrier relative to the rehearsal, in its parent's frame.
pub(super) type Turns = [Quat; CARRIERS.len()];
/// Identity rotations.
pub(super) const UNTURNED: Turns = [Quat::IDENTITY; CARRIERS.len()];
/// Number of coordinates of hands, feet and head, which come first.
pub(super) const ENDS: usize = 15;
/// Postures before and after the middle one that a velocity (slope of a regression line) and a mean are taken
/// over.
pub(super) const HALF: usize = 3;

/// Turns canonical frames into postures. An invalid rotation keeps the joint's last value.
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

    /// The posture of a frame with these turns removed.
    pub(super) fn push_without(&mut self, offsets: &Turns, pose: &CanonicalPose) -> Posture {
        for (last, joint) in self.previous.iter_mut().zip(pose) {
            *last = Quat::from_array(joint.map(f64::from)).normalize_or(*last);
        }
        let hips = self.previous[HIPS];
        // Swing-twist decomposition: the twist of the hips about the vertical is their heading.
        self.yaw = Quat::new(hips.w, 0.0, hips.y, 0.0).normalize_or(self.yaw);
        let mut joints = self.previous;
        for (turn, j) in offsets.iter().zip(CARRIERS) {
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

    /// The rotations of the newest frame.
    pub(super) fn kept(&self) -> KeptPose {
        self.previous
            .map(|joint| joint.to_array().map(|v| (v * f64::from(i16::MAX)).round() as i16))
    }
}

/// Rotation of each carrier in one pose relative to another.
pub(super) fn between(now: &KeptPose, then: &KeptPose) -> Turns {
    let rotation = |of: [i16; 4]| Quat::from_array(of.map(f64::from)).normalize_or(Quat::IDENTITY);
    CARRIERS.map(|j| rotation(now[j]) * rotation(then[j]).conj())
}

/// Number of stored coordinates of a posture.
const STORED: usize = 3 * JOINTS.len();
/// Stored units per metre; positions within 2 m can be stored.
const UNIT: f32 = 16384.0;

/// A posture as stored, in integer units.
pub(super) type KeptPosture = [i16; STORED];

/// Converts a posture to its stored form.
pub(super) fn keep(posture: &Posture) -> KeptPosture {
    std::array::from_fn(|n| (posture[n] * UNIT).round() as i16)
}

/// Converts a stored posture to metres.
#[inline(always)]
pub(super) fn metres(kept: &KeptPosture) -> Posture {
    let mut out = [0.0; WIDTH];
    for (slot, &v) in out.iter_mut().zip(kept) {
        *slot = f32::from(v) / UNIT;
    }
    out
}

/// [`middle`] and [`velocity`] at `c`, where only every second posture is known and those between are
/// interpolated.
#[inline(always)]
pub(super) fn at_moment([a, b, c, d, e]: [&Posture; 5]) -> [Posture; 2] {
    let mut out = [[0.0; WIDTH]; 2];
    for n in 0..WIDTH {
        out[0][n] = (0.5 * (a[n] + e[n]) + 2.0 * (b[n] + c[n] + d[n])) / MEAN_FRAMES;
        out[1][n] = (4.0 * (d[n] - b[n]) + 1.5 * (e[n] - a[n])) * SLOPE;
    }
    out
}

#[inline(always)]
/// [`middle`] and [`velocity`] halfway between `c` and `d`, likewise.
pub(super) fn between_moments([b, c, d, e]: [&Posture; 4]) -> [Posture; 2] {
    let mut out = [[0.0; WIDTH]; 2];
    for n in 0..WIDTH {
        out[0][n] = (1.5 * (b[n] + e[n]) + 2.0 * (c[n] + d[n])) / MEAN_FRAMES;
        out[1][n] = (2.0 * (d[n] - c[n]) + 4.0 * (e[n] - b[n])) * SLOPE;
    }
    out
}

/// Number of frames in a mean.
const MEAN_FRAMES: f32 = (2 * HALF + 1) as f32;
/// Slope in m/s per frame-weighted difference in metres: rate / sum of squared frame offsets.
const SLOPE: f32 = RATE as f32 / (2 * (1 + 4 + 9)) as f32;
const _: () = assert!(HALF == 3);

/// Velocity in m/s in the middle of the postures `at(0)` to `at(2 * HALF)`: the slope of their regression
/// line.
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

/// Squared errors, summed over the coordinates, of a mean (m^2) and of a velocity ((m/s)^2) of postures whose
/// coordinates each have the variance `noise` (m^2) from frame to frame.
pub(super) fn jitter_errors(noise: f32) -> [f32; 2] {
    let noise = STORED as f32 * noise;
    [noise / MEAN_FRAMES, noise * SLOPE * RATE as f32]
}

/// The mean of the postures `at(0)` to `at(2 * HALF)`.
pub(super) fn middle<'a>(at: impl Fn(usize) -> &'a Posture) -> Posture {
    let mut out = [0.0; WIDTH];
    for k in 0..=2 * HALF {
        out.iter_mut().zip(at(k)).for_each(|(slot, v)| *slot += v);
    }
    out.map(|v| v / (2 * HALF + 1) as f32)
}

#[inline(always)]
pub(super) fn dot(a: &Posture, b: &Posture) -> f32 {
    lanes(a, b, |x, y| x * y)
}

/// The squared distance.
#[inline(always)]
pub(super) fn distance_squared(a: &Posture, b: &Posture) -> f32 {
    lanes(a, b, |x, y| (x - y) * (x - y))
}

/// Sum over pairs of coordinates, in an order that allows SIMD of eight lanes.
#[inline(always)]
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
        assert!(distance_squared(&ahead, &turned) < 1e-10);
    }

    #[test]
    fn jitter_errors_are_those_of_means_and_slopes_of_white_noise() {
        let mut sums = [0.0; 2];
        for k in 0..=2 * HALF {
            let mut postures = [[0.0; WIDTH]; 2 * HALF + 1];
            postures[k][..STORED].fill(1.0);
            for (sum, posture) in sums
                .iter_mut()
                .zip([middle(|i| &postures[i]), velocity(|i| &postures[i])])
            {
                *sum += dot(&posture, &posture);
            }
        }
        for (sum, error) in sums.iter().zip(jitter_errors(1.0)) {
            assert!((sum / error - 1.0).abs() < 1e-5, "{sum} {error}");
        }
    }

    /// The interpolated formulas equal those over all seven postures.
    #[test]
    fn means_and_velocities_of_every_second_posture_are_those_of_all() {
        let known: Vec<Posture> = (0..6)
            .map(|i| std::array::from_fn(|n| 0.1 * ((i * i + 3 * n) as f32).sin()))
            .collect();
        let all = |i: usize| -> Posture {
            let (a, b) = (&known[i / 2], &known[i.div_ceil(2)]);
            std::array::from_fn(|n| (a[n] + b[n]) / 2.0)
        };
        let [a, b, c, d, e] = std::array::from_fn(|i| &known[i]);
        for (from, [place, speed]) in [
            (1, at_moment([a, b, c, d, e])),
            (2, between_moments([b, c, d, e])),
        ] {
            let seven: [Posture; 7] = std::array::from_fn(|i| all(from + i));
            assert!(distance_squared(&place, &middle(|i| &seven[i])) < 1e-10, "{from}");
            assert!(
                distance_squared(&speed, &velocity(|i| &seven[i])) < 1e-8,
                "{from}"
            );
        }
    }

    #[test]
    fn the_velocity_of_a_line_is_its_slope() {
        let line: [Posture; 7] = std::array::from_fn(|i| [0.02 * i as f32; WIDTH]);
        let v = velocity(|i| &line[i]);
        assert!(v.iter().all(|v| (v - 1.0).abs() < 1e-5));
        assert!((dot(&v, &v) - WIDTH as f32).abs() < 1e-3);
    }
}
