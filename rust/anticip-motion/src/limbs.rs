//! What each hand and foot does: how fast it goes, how high it is, and when it strikes.

use crate::canonical::OFFSETS;
use crate::kinematics::{HEIGHTS, TOO_FAST, VELOCITIES, body_kinematics};

/// The joints at the ends of left hand, right hand, left foot and right foot.
const JOINTS: [usize; 4] = [9, 13, 17, 21];
/// Part of the way that the speed goes to each new one.
const FOLLOW: f64 = 0.6;
/// m/s at which the speed is 0.63.
const BRISK: f64 = 1.5;
/// A stroke: the speed has fallen to this part of its highest, which was at least so many m/s, and so many frames
/// have passed since the last.
const FALLEN: f64 = 0.6;
const LEAST: f64 = 0.8;
const APART: u32 = 6;
/// By how much the highest is forgotten in a frame.
const FORGET: f64 = 0.97;

/// A limb in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Limb {
    /// Of its end against the hips, 0..1: 0.63 at 1.5 m/s.
    pub speed: f32,
    /// Of a hand 0 hanging, 0.5 at the shoulder, 1 stretched upwards; of a foot 0 standing, 1 at 0.9 m.
    pub height: f32,
    /// Strength of a stroke that ends in this frame, 0..1; else 0.
    pub stroke: f32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Motion {
    speed: f64,
    highest: f64,
    since: u32,
}

/// Follows the limbs, a feature row at a time.
#[derive(Debug, Clone, Default)]
pub struct LimbTracker {
    motions: [Motion; 4],
}

/// A speed within 0..1.
fn brisk(speed: f64) -> f32 {
    (1.0 - (-speed / BRISK).exp()) as f32
}

impl LimbTracker {
    /// The next frame is a first frame again.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// Takes the next feature row, of any version.
    pub fn push<const COLUMNS: usize>(&mut self, row: &[f32; COLUMNS]) -> [Limb; 4] {
        let body = body_kinematics(row, &OFFSETS);
        let (heights, velocities) = (&body[HEIGHTS..], &body[VELOCITIES..]);
        std::array::from_fn(|limb| {
            let joint = JOINTS[limb] - 1;
            let velocity: [f64; 3] = std::array::from_fn(|axis| f64::from(velocities[3 * joint + axis]));
            let speed = velocity.iter().map(|v| v * v).sum::<f64>().sqrt();
            let speed = if speed < TOO_FAST { speed } else { 0.0 };
            // They are told in units of 0.3 m above where a T-pose has them.
            let above = 0.3 * heights[joint];
            let height = if limb < 2 { 0.5 + above / 1.2 } else { above / 0.9 };
            Limb {
                speed: 0.0,
                height: if height.is_finite() {
                    height.clamp(0.0, 1.0)
                } else {
                    0.0
                },
                stroke: 0.0,
            }
            .moved(&mut self.motions[limb], speed)
        })
    }
}

impl Limb {
    fn moved(mut self, motion: &mut Motion, speed: f64) -> Self {
        motion.speed += FOLLOW * (speed - motion.speed);
        motion.highest = (FORGET * motion.highest).max(motion.speed);
        motion.since = motion.since.saturating_add(1);
        self.speed = brisk(motion.speed);
        if motion.highest > LEAST && motion.speed < FALLEN * motion.highest && motion.since > APART {
            self.stroke = brisk(motion.highest);
            (motion.highest, motion.since) = (motion.speed, 0);
        }
        self
    }
}
