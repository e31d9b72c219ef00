//! Speed, height and strokes of each hand and foot.

use crate::canonical::OFFSETS;
use crate::kinematics::{HEIGHTS, MAX_SPEED, VELOCITIES, body_kinematics};

/// Joints at the ends of left hand, right hand, left foot and right foot.
const JOINTS: [usize; 4] = [9, 13, 17, 21];
/// Gain of the speed's low-pass per frame.
const SPEED_GAIN: f64 = 0.6;
/// Speed (m/s) that maps to 0.63.
const SPEED_SCALE: f64 = 1.5;
/// Part of its peak to which the speed must fall for a stroke to end.
const STROKE_FALL: f64 = 0.6;
/// Lowest peak speed of a stroke, m/s.
const MIN_STROKE_SPEED: f64 = 0.8;
/// Frames that must have passed since the last stroke.
const MIN_STROKE_FRAMES: u32 = 6;
/// Decay of the peak per frame.
const PEAK_DECAY: f64 = 0.97;

/// Movement of one limb in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Limb {
    /// Speed of its end relative to the hips, 0..1: 0.63 at 1.5 m/s.
    pub speed: f32,
    /// Height: of a hand 0 hanging, 0.5 at the shoulder, 1 stretched upwards; of a foot 0 standing, 1 at 0.9 m.
    pub height: f32,
    /// Strength of a stroke that ends in this frame, 0..1; 0 if none does.
    pub stroke: f32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Motion {
    speed: f64,
    peak: f64,
    since_stroke: u32,
}

/// Tracks the limbs over the feature rows of a stream.
#[derive(Debug, Clone, Default)]
pub struct LimbTracker {
    motions: [Motion; 4],
}

/// Maps a speed (m/s) to 0..1.
fn squash(speed: f64) -> f32 {
    (1.0 - (-speed / SPEED_SCALE).exp()) as f32
}

impl LimbTracker {
    /// Starts a new stream with the next row.
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
            let speed = if speed < MAX_SPEED { speed } else { 0.0 };
            // Heights are in units of 0.3 m relative to the T-pose.
            let above = 0.3 * heights[joint];
            let height = if limb < 2 { 0.5 + above / 1.2 } else { above / 0.9 };
            let motion = &mut self.motions[limb];
            let stroke = motion.push(speed);
            Limb {
                speed: squash(motion.speed),
                height: if height.is_finite() {
                    height.clamp(0.0, 1.0)
                } else {
                    0.0
                },
                stroke: stroke.map_or(0.0, squash),
            }
        })
    }
}

impl Motion {
    /// Adds a speed; returns the peak speed of a stroke that ends with it.
    fn push(&mut self, speed: f64) -> Option<f64> {
        self.speed += SPEED_GAIN * (speed - self.speed);
        self.peak = (PEAK_DECAY * self.peak).max(self.speed);
        self.since_stroke = self.since_stroke.saturating_add(1);
        let ends = self.peak > MIN_STROKE_SPEED
            && self.speed < STROKE_FALL * self.peak
            && self.since_stroke > MIN_STROKE_FRAMES;
        ends.then(|| {
            self.since_stroke = 0;
            std::mem::replace(&mut self.peak, self.speed)
        })
    }
}
