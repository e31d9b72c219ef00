//! What a moment is recognised by: the parameters of the last second and the posture, as whole numbers.

use anticip_motion::canonical::{HIPS, JOINT_COUNT};
use anticip_motion::twin::body::{Body, Rotations};
use anticip_motion::twin::{Ring, TWIN_BLOCKS};

use crate::{MemoryError, PARAMETER_COUNT};

/// How many numbers a key has.
pub const KEY_SIZE: usize = 7 * PARAMETER_COUNT + 2 * POSTURE;

/// Version of the layout, and of the twin's columns that it is made of; what was saved with another one is refused.
pub const KEYS_VERSION: u32 = 1;

/// Units of a key to one: a millimetre, half a thousandth of a parameter.
pub(crate) const UNIT: f64 = 1024.0;

/// The greatest number of a key: two metres, a parameter of one.
pub(crate) const GREATEST: i16 = 2048;

/// The twin's blocks: delays in ms, and means over 1 s and 4 s.
pub(crate) type Twin = [[f64; PARAMETER_COUNT]; TWIN_BLOCKS];
pub(crate) const DELAY_0: usize = 0;
pub(crate) const DELAY_20: usize = 1;
pub(crate) const DELAY_60: usize = 2;
pub(crate) const DELAY_160: usize = 3;
pub(crate) const MEAN_1S: usize = 4;
pub(crate) const MEAN_4S: usize = 5;

/// Frames into a take of the first key: all that it reads is there.
pub(crate) const FIRST: usize = 25;

/// What weighs a parameter against a metre.
const PARAMETER_SCALE: f64 = 2.0;
/// Frames ago that the undelayed parameters are read.
const AGO: [usize; 5] = [0, 3, 8, 15, FIRST];
/// Frames ago that the posture is read.
const POSTURE_AGO: [usize; 2] = [0, 6];
/// How many numbers a posture has: places of all joints but the hips.
const POSTURE: usize = 3 * (JOINT_COUNT - 1);

/// What a moment is recognised by: seven times the eight parameters, times two (undelayed now and 60, 160, 300, 500 ms
/// ago; delayed by 60 ms; the mean over 1 s), then the joints' places now and 120 ms ago, relative to the hips, without
/// heading, metres; all in 1/1024.
pub type Key = [i16; KEY_SIZE];

/// A key as it is stored: what is of its own moment, and what earlier moments of the take have as their own, which is
/// read there. Zeros fill the lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Split {
    /// Undelayed parameters now and 60 ms ago, the delayed, the mean; the places now.
    pub(crate) own: Own,
    /// Undelayed parameters 160, 300 and 500 ms ago; the places 120 ms ago.
    pub(crate) earlier: Earlier,
}

pub(crate) const OWN: usize = 96;
pub(crate) type Own = [i16; OWN];
const EARLIER: usize = 88;
pub(crate) type Earlier = [i16; EARLIER];

/// Where what is [`Earlier`] begins in a key, where it ends, and where it goes on to the end.
const REPEATED: [usize; 3] = [
    2 * PARAMETER_COUNT,
    AGO.len() * PARAMETER_COUNT,
    KEY_SIZE - POSTURE,
];

/// What is [`Earlier`] of a moment, from what is [`Own`] of those so many moments before it.
pub(crate) const BEFORE: [usize; 4] = [4, 6, 11, 3];

#[inline(always)]
pub(crate) fn earlier([first, second, third, fourth]: [&Own; BEFORE.len()]) -> Earlier {
    const P: usize = PARAMETER_COUNT;
    let mut out = [0; EARLIER];
    out[..P].copy_from_slice(&first[..P]);
    out[P..2 * P].copy_from_slice(&second[P..2 * P]);
    out[2 * P..3 * P].copy_from_slice(&third[P..2 * P]);
    out[3 * P..].copy_from_slice(&fourth[4 * P..]);
    out
}

impl Split {
    pub(crate) fn of(key: &Key) -> Self {
        let (mut own, mut earlier) = ([0; OWN], [0; EARLIER]);
        let [from, to, rest] = REPEATED;
        own[..from].copy_from_slice(&key[..from]);
        own[from..from + rest - to].copy_from_slice(&key[to..rest]);
        earlier[..to - from].copy_from_slice(&key[from..to]);
        earlier[to - from..][..POSTURE].copy_from_slice(&key[rest..]);
        Self { own, earlier }
    }

    pub(crate) fn key(&self) -> Key {
        let mut key = [0; KEY_SIZE];
        let [from, to, rest] = REPEATED;
        key[..from].copy_from_slice(&self.own[..from]);
        key[to..rest].copy_from_slice(&self.own[from..from + rest - to]);
        key[from..to].copy_from_slice(&self.earlier[..to - from]);
        key[rest..].copy_from_slice(&self.earlier[to - from..][..POSTURE]);
        key
    }
}

/// The squared distance of two keys, in units of one.
#[inline(always)]
pub(crate) fn distance(a: &Split, own: &Own, earlier: &Earlier) -> f32 {
    let total = squares(&a.own, own).wrapping_add(squares(&a.earlier, earlier));
    (f64::from(total.cast_unsigned()) / (UNIT * UNIT)) as f32
}

#[inline(always)]
fn squares<const N: usize>(a: &[i16; N], b: &[i16; N]) -> i32 {
    // Each difference fits 16 bits, and the sum of all squares 32, of which the machine adds up signed ones.
    let apart = a.iter().zip(b).map(|(&a, &b)| i32::from(a - b));
    apart.map(|apart| apart * apart).fold(0, i32::wrapping_add)
}

const _: () = assert!(KEY_SIZE as u64 * (2 * GREATEST as u64).pow(2) < 1 << 32);

/// The parameters that a key holds, at no delay.
pub(crate) fn parameters(key: &Key) -> [f32; PARAMETER_COUNT] {
    std::array::from_fn(|i| f32::from(key[i]) / (UNIT * PARAMETER_SCALE) as f32)
}

/// Refuses numbers that no key has.
pub(crate) fn check(keys: &[i16]) -> Result<(), MemoryError> {
    match keys.iter().find(|value| !(-GREATEST..=GREATEST).contains(*value)) {
        None => Ok(()),
        Some(value) => Err(MemoryError::Option {
            option: "keys",
            expected: "numbers within -2048..2048",
            given: value.to_string(),
        }),
    }
}

/// Makes keys of a stream.
#[derive(Debug, Clone)]
pub(crate) struct KeyMaker {
    /// Scalar part and vertical part of where the hips face, kept through poses that have none (upside down).
    heading: [f64; 2],
    now: Ring<PARAMETER_COUNT>,
    posture: Ring<POSTURE>,
}

impl Default for KeyMaker {
    fn default() -> Self {
        Self {
            heading: [1.0, 0.0],
            now: Ring::new(FIRST + 1),
            posture: Ring::new(POSTURE_AGO[1] + 1),
        }
    }
}

impl KeyMaker {
    /// The next frame begins another take.
    pub(crate) fn reset(&mut self) {
        self.heading = [1.0, 0.0];
        self.now.clear();
        self.posture.clear();
    }

    /// Takes a frame; its key, once all that it reads is there.
    pub(crate) fn push(&mut self, pose: &Rotations, body: &Body, twins: &Twin) -> Option<Key> {
        self.now.push(&twins[DELAY_0]);
        let posture = self.without_heading(pose[HIPS], body);
        self.posture.push(&posture);
        if self.now.len() <= FIRST {
            return None;
        }
        let parameters = AGO
            .iter()
            .flat_map(|&ago| *self.now.ago(ago))
            .chain(twins[DELAY_60])
            .chain(twins[MEAN_1S])
            .map(|value| PARAMETER_SCALE * value);
        let postures = POSTURE_AGO.iter().flat_map(|&ago| *self.posture.ago(ago));
        let mut key = [0; KEY_SIZE];
        for (slot, value) in key.iter_mut().zip(parameters.chain(postures)) {
            let greatest = f64::from(GREATEST);
            *slot = (value * UNIT).round().clamp(-greatest, greatest) as i16;
        }
        Some(key)
    }

    /// The joints' places, turned so that the hips face ahead: swing and twist, the twist about the vertical left out.
    fn without_heading(&mut self, [w, _, y, _]: [f64; 4], body: &Body) -> [f64; POSTURE] {
        let length = w.hypot(y);
        if length > 1e-6 {
            self.heading = [w / length, y / length];
        }
        let [w, y] = self.heading;
        let (cos, sin) = (w * w - y * y, 2.0 * w * y);
        let mut out = [0.0; POSTURE];
        for (slot, [x, height, z]) in out.as_chunks_mut::<3>().0.iter_mut().zip(&body.upright()[1..]) {
            *slot = [cos * x - sin * z, *height, sin * x + cos * z];
        }
        out
    }
}
