//! The key of a moment: the parameters of the last second and the posture, as integers.

use anticip_motion::canonical::{HIPS, JOINT_COUNT};
use anticip_motion::twin::body::{Body, Rotations};
use anticip_motion::twin::{Ring, TWIN_BLOCKS};

use crate::{MemoryError, PARAMETER_COUNT};

/// Number of values in a key.
pub const KEY_SIZE: usize = 7 * PARAMETER_COUNT + 2 * POSTURE_SIZE;

/// Version of the key layout and of the twin columns in it; saved memories with another version are refused.
pub const KEYS_VERSION: u32 = 1;

/// Key units per 1: a metre in millimetres (roughly), a parameter in steps of 1/2048.
pub(crate) const UNIT: f64 = 1024.0;

/// Largest value in a key: two metres, or a parameter of 1.
pub(crate) const MAX_VALUE: i16 = 2048;

/// The twin's blocks: parameters with delays in ms, and means over 1 s and 4 s.
pub(crate) type Twin = [[f64; PARAMETER_COUNT]; TWIN_BLOCKS];
pub(crate) const DELAY_0: usize = 0;
pub(crate) const DELAY_20: usize = 1;
pub(crate) const DELAY_60: usize = 2;
pub(crate) const DELAY_160: usize = 3;
pub(crate) const MEAN_1S: usize = 4;
pub(crate) const MEAN_4S: usize = 5;

/// Frame of a take that has the first key: all frames it reads exist.
pub(crate) const FIRST_KEY_FRAME: usize = 25;

/// Weight of a parameter relative to a metre.
const PARAMETER_SCALE: f64 = 2.0;
/// Frames ago at which the undelayed parameters are read.
const PARAMETER_AGO: [usize; 5] = [0, 3, 8, 15, FIRST_KEY_FRAME];
/// Frames ago at which the posture is read.
const POSTURE_AGO: [usize; 2] = [0, 6];
/// Number of values in a posture: positions of all joints but the hips.
const POSTURE_SIZE: usize = 3 * (JOINT_COUNT - 1);

/// The key of a moment: seven blocks of the eight parameters, times two (undelayed now and 60, 160, 300, 500
/// ms ago; delayed by 60 ms; mean over 1 s), then the joint positions now and 120 ms ago, relative to the
/// hips, without heading, in metres; all in units of 1/1024.
pub type Key = [i16; KEY_SIZE];

/// A key as it is stored: the values of its own moment, and those that repeat the own values of earlier
/// moments of the take and need not be stored. Padded with zeros to full SIMD lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Split {
    /// Undelayed parameters now and 60 ms ago, delayed parameters, means; positions now.
    pub(crate) own: Own,
    /// Undelayed parameters 160, 300 and 500 ms ago; positions 120 ms ago.
    pub(crate) earlier: Earlier,
}

/// Length of [`Own`], padded.
pub(crate) const OWN_SIZE: usize = 96;
pub(crate) type Own = [i16; OWN_SIZE];
/// Length of [`Earlier`], padded.
const EARLIER_SIZE: usize = 88;
pub(crate) type Earlier = [i16; EARLIER_SIZE];

/// Where the [`Earlier`] values start in a key, where they end, and where they continue to the end of the
/// key.
const EARLIER_RANGES: [usize; 3] = [
    2 * PARAMETER_COUNT,
    PARAMETER_AGO.len() * PARAMETER_COUNT,
    KEY_SIZE - POSTURE_SIZE,
];

/// How many moments ago the [`Own`] values lie that make up [`Earlier`].
pub(crate) const EARLIER_MOMENTS: [usize; 4] = [4, 6, 11, 3];

/// Assembles [`Earlier`] from the own values of the moments [`EARLIER_MOMENTS`] ago.
#[inline(always)]
pub(crate) fn earlier([first, second, third, fourth]: [&Own; EARLIER_MOMENTS.len()]) -> Earlier {
    const P: usize = PARAMETER_COUNT;
    let mut out = [0; EARLIER_SIZE];
    out[..P].copy_from_slice(&first[..P]);
    out[P..2 * P].copy_from_slice(&second[P..2 * P]);
    out[2 * P..3 * P].copy_from_slice(&third[P..2 * P]);
    out[3 * P..].copy_from_slice(&fourth[4 * P..]);
    out
}

impl Split {
    /// Splits a key into stored and repeated values.
    pub(crate) fn of(key: &Key) -> Self {
        let (mut own, mut earlier) = ([0; OWN_SIZE], [0; EARLIER_SIZE]);
        let [from, to, rest] = EARLIER_RANGES;
        own[..from].copy_from_slice(&key[..from]);
        own[from..from + rest - to].copy_from_slice(&key[to..rest]);
        earlier[..to - from].copy_from_slice(&key[from..to]);
        earlier[to - from..][..POSTURE_SIZE].copy_from_slice(&key[rest..]);
        Self { own, earlier }
    }

    /// The inverse of [`Split::of`].
    pub(crate) fn key(&self) -> Key {
        let mut key = [0; KEY_SIZE];
        let [from, to, rest] = EARLIER_RANGES;
        key[..from].copy_from_slice(&self.own[..from]);
        key[to..rest].copy_from_slice(&self.own[from..from + rest - to]);
        key[from..to].copy_from_slice(&self.earlier[..to - from]);
        key[rest..].copy_from_slice(&self.earlier[to - from..][..POSTURE_SIZE]);
        key
    }
}

/// The squared distance of two keys, in squared metres (or parameters times two).
#[inline(always)]
pub(crate) fn distance(a: &Split, own: &Own, earlier: &Earlier) -> f32 {
    let total = squares(&a.own, own).wrapping_add(squares(&a.earlier, earlier));
    (f64::from(total.cast_unsigned()) / (UNIT * UNIT)) as f32
}

#[inline(always)]
fn squares<const N: usize>(a: &[i16; N], b: &[i16; N]) -> i32 {
    // Each difference fits 16 bits. The sum of all squares fits 32 bits unsigned; SIMD adds only signed
    // integers, so it wraps and is read as unsigned by the caller.
    let differences = a.iter().zip(b).map(|(&a, &b)| i32::from(a - b));
    differences.map(|d| d * d).fold(0, i32::wrapping_add)
}

const _: () = assert!(KEY_SIZE as u64 * (2 * MAX_VALUE as u64).pow(2) < 1 << 32);

/// The undelayed parameters in a key.
pub(crate) fn parameters(key: &Key) -> [f32; PARAMETER_COUNT] {
    std::array::from_fn(|i| f32::from(key[i]) / (UNIT * PARAMETER_SCALE) as f32)
}

/// Returns an error if any value is out of range for a key.
pub(crate) fn check(keys: &[i16]) -> Result<(), MemoryError> {
    match keys
        .iter()
        .find(|value| !(-MAX_VALUE..=MAX_VALUE).contains(*value))
    {
        None => Ok(()),
        Some(value) => Err(MemoryError::Option {
            option: "keys",
            expected: "numbers within -2048..2048",
            given: value.to_string(),
        }),
    }
}

/// Computes the keys of a stream.
#[derive(Debug, Clone)]
pub(crate) struct KeyMaker {
    /// Scalar and vertical part of the hips' heading; kept while the pose has none (upside down).
    heading: [f64; 2],
    now: Ring<PARAMETER_COUNT>,
    posture: Ring<POSTURE_SIZE>,
}

impl Default for KeyMaker {
    fn default() -> Self {
        Self {
            heading: [1.0, 0.0],
            now: Ring::new(FIRST_KEY_FRAME + 1),
            posture: Ring::new(POSTURE_AGO[1] + 1),
        }
    }
}

impl KeyMaker {
    /// The next frame starts a new take.
    pub(crate) fn reset(&mut self) {
        self.heading = [1.0, 0.0];
        self.now.clear();
        self.posture.clear();
    }

    /// Adds a frame; returns its key once all frames that it reads exist.
    pub(crate) fn push(&mut self, pose: &Rotations, body: &Body, twins: &Twin) -> Option<Key> {
        self.now.push(&twins[DELAY_0]);
        let posture = self.without_heading(pose[HIPS], body);
        self.posture.push(&posture);
        if self.now.len() <= FIRST_KEY_FRAME {
            return None;
        }
        let parameters = PARAMETER_AGO
            .iter()
            .flat_map(|&frames_ago| *self.now.ago(frames_ago))
            .chain(twins[DELAY_60])
            .chain(twins[MEAN_1S])
            .map(|value| PARAMETER_SCALE * value);
        let postures = POSTURE_AGO
            .iter()
            .flat_map(|&frames_ago| *self.posture.ago(frames_ago));
        let mut key = [0; KEY_SIZE];
        for (slot, value) in key.iter_mut().zip(parameters.chain(postures)) {
            let greatest = f64::from(MAX_VALUE);
            *slot = (value * UNIT).round().clamp(-greatest, greatest) as i16;
        }
        Some(key)
    }

    /// The joint positions turned so that the hips face forward (swing-twist decomposition, without the
    /// vertical twist).
    fn without_heading(&mut self, [w, _, y, _]: [f64; 4], body: &Body) -> [f64; POSTURE_SIZE] {
        let length = w.hypot(y);
        if length > 1e-6 {
            self.heading = [w / length, y / length];
        }
        let [w, y] = self.heading;
        let (cos, sin) = (w * w - y * y, 2.0 * w * y);
        let mut out = [0.0; POSTURE_SIZE];
        for (slot, [x, height, z]) in out.as_chunks_mut::<3>().0.iter_mut().zip(&body.upright()[1..]) {
            *slot = [cos * x - sin * z, *height, sin * x + cos * z];
        }
        out
    }
}
