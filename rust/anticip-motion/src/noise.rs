//! A gate that separates sensor jitter from movement: while a body stands still, its pose is held.
//!
//! A suit's jitter is as strong at 4 Hz as at half a hertz; a body moves far more slowly than that. So each joint's
//! noise is measured in its fast part (a second-order high-pass at 2.7 Hz), and movement is what exceeds that noise
//! in the slow part, pooled over the joints or, with a larger threshold, of one joint alone. While nothing does, the
//! pose is held; otherwise the gate opens within 60 ms and the pose passes unchanged, bit for bit.
//!
//! What a body did a second ago delays its closing, so loudness follows a second gate, the activity. When the distance
//! from the centre shrinks as after a stop, it judges the last 0.4 s alone: who stops is silent after a second, while
//! the pose still passes in case the movement goes on.

use anticip_geometry::Quat;

use crate::canonical::JOINT_COUNT;
use crate::features::RATE;
use crate::pose::Pose;

type Vec4 = [f64; 4];

/// Degrees to radians.
const DEGREE: f64 = std::f64::consts::PI / 180.0;
/// Least initial noise of a joint (radians rms about each axis), whatever is known from before.
const PRIOR: f64 = DEGREE;
/// Least noise of a joint; no suit is better.
const FLOOR: f64 = 0.06 * DEGREE;
/// Factor by which the noise may grow over its initial value; anything beyond is movement.
const MAX_GROWTH: f64 = 1.2;
/// Rms of the jitter over the rms of its fast part: 2.7 if it is white, 3.1 if it ends at 5 Hz.
const TOTAL_PER_FAST: f64 = 3.0;
/// Movement thresholds of the slow part and of the less smoothed (quick) one, pooled over the joints and divided by
/// 1 + 1/sqrt(joints). Jitter that ends at 5 Hz reaches .92 and 1.36 of its rms over 22 joints in a minute.
const SLOW_LIMIT: f64 = 1.27;
const QUICK_LIMIT: f64 = 1.8;
/// The same for the joint that deviates most: a few slow waves of jitter reach 2.6 and 4.1 of the learned noise.
const JOINT_SLOW_LIMIT: f64 = 3.2;
const JOINT_QUICK_LIMIT: f64 = 5.0;
/// Share of the movement thresholds below which a body is still.
const STILL: f64 = 0.6;
/// Seconds that the gate takes to open, that a body must be still before it starts to close, and that it takes to close.
const GATE: Swing = Swing::new(0.06, 0.6, 0.5);
/// The same for the activity, and the number of frames that it judges.
const ACTIVITY: Swing = Swing::new(0.02, 0.4, 0.3);
const RECENT: usize = 20;
/// A body has stopped if its distance from the centre is less than this share of that before those frames: after a
/// stop it halves, since the centre follows; in a slow movement that goes on it stays.
const STOPPED: f64 = 0.6;
/// A joint with a smaller squared deviation (radians) is not measured at all.
const MIN_DEVIATION: f64 = 1e-12;

/// Time constants of the low-passes of a rotation, seconds.
const SMOOTH_S: f64 = 0.02;
const FAST_S: f64 = 0.06;
const SLOW_S: f64 = 0.08;
const CENTRE_S: f64 = 0.6;
/// Time constants of the noise, seconds: of its level, and of its decrease and increase.
const LEVEL_S: f64 = 1.0;
const DECREASE_S: f64 = 1.0;
const INCREASE_S: f64 = 12.0;
/// Time constants of the held pose, seconds: while the gate is shut, and while it is open.
const HELD_S: f64 = 3.0;
const FOLLOWED_S: f64 = 0.4;

/// Gain per frame of a one-pole low-pass with this time constant.
fn gain(seconds: f64) -> f64 {
    -(-1.0 / (RATE * seconds)).exp_m1()
}

fn approach(x: &mut Vec4, target: &Vec4, gain: f64) {
    for (a, b) in x.iter_mut().zip(target) {
        *a += gain * (b - *a);
    }
}

/// A third of the squared angle between two close rotations: the mean square about each axis.
fn axis_variance(a: &Vec4, b: &Vec4) -> f64 {
    let square: f64 = a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum();
    4.0 / 3.0 * square
}

/// Filter state of one joint: low-passes of its rotation (quaternions, not normalised), and its noise.
#[derive(Debug, Clone, Copy)]
struct Joint {
    smooth: Vec4,
    fast: [Vec4; 2],
    slow: Vec4,
    centre: Vec4,
    held: Vec4,
    /// Mean square of the fast part, rad^2.
    level: f64,
    /// Square of the noise, rad^2.
    noise: f64,
    /// Upper limit of `noise`.
    max_noise: f64,
}

impl Joint {
    fn new(known: f64) -> Self {
        let noise = known.max(PRIOR);
        Self {
            smooth: [0.0; 4],
            fast: [[0.0; 4]; 2],
            slow: [0.0; 4],
            centre: [0.0; 4],
            held: [0.0; 4],
            level: (noise / TOTAL_PER_FAST).powi(2),
            noise: noise * noise,
            max_noise: (MAX_GROWTH * noise).powi(2),
        }
    }

    /// Sets all filters to a rotation.
    fn reset(&mut self, q: Vec4) {
        self.smooth = q;
        self.fast = [q; 2];
        self.slow = q;
        self.centre = q;
        self.held = q;
    }
}

/// [`gain`] of every time constant.
#[derive(Debug, Clone, Copy)]
struct Gains {
    smooth: f64,
    fast: f64,
    slow: f64,
    centre: f64,
    level: f64,
    decrease: f64,
    increase: f64,
}

/// Holds the canonical pose of a body that stands still, and learns the jitter of each joint.
///
/// Works on frames of the 50 Hz grid, uses only past frames and allocates nothing after construction.
#[derive(Debug, Clone)]
pub struct NoiseGate {
    mask: [bool; JOINT_COUNT],
    joints: [Joint; JOINT_COUNT],
    root: [f64; 3],
    gains: Gains,
    /// The smoothed rotations of the last [`RECENT`] frames, the oldest at `oldest`, and their sums.
    recent: Box<[[Vec4; JOINT_COUNT]; RECENT]>,
    oldest: usize,
    sums: [Vec4; JOINT_COUNT],
    /// By how much the body exceeded its noise in those frames.
    movements: [f64; RECENT],
    gate: Swing,
    activity: Swing,
    running: bool,
    out: Pose,
}

/// A position between 0 (shut) and 1 (open), moved by whether a body moves.
#[derive(Debug, Clone, Copy)]
struct Swing {
    opening_s: f64,
    patience_s: f64,
    closing_s: f64,
    open: f64,
    /// Seconds without movement.
    quiet: f64,
}

impl Swing {
    const fn new(opening_s: f64, patience_s: f64, closing_s: f64) -> Self {
        Self {
            opening_s,
            patience_s,
            closing_s,
            open: 0.0,
            quiet: 0.0,
        }
    }

    /// Moves by one frame of a body that exceeds its noise by this factor: opens, waits, or closes.
    fn step(&mut self, movement: f64) {
        if movement > 1.0 {
            self.quiet = 0.0;
            self.open = (self.open + 1.0 / (RATE * self.opening_s)).min(1.0);
        } else if movement < STILL {
            self.quiet += 1.0 / RATE;
            if self.quiet > self.patience_s {
                self.open = (self.open - 1.0 / (RATE * self.closing_s)).max(0.0);
            }
        } else {
            self.quiet = (self.quiet - 1.0 / RATE).max(0.0);
        }
    }

    /// The position, eased at both ends.
    fn eased(&self) -> f64 {
        self.open * self.open * (3.0 - 2.0 * self.open)
    }
}

impl NoiseGate {
    /// Creates a gate for a source with the joints of `mask`. `noise` is the jitter of each joint (radians, rms about
    /// each axis), if known from before; values that are not finite are ignored.
    #[must_use]
    pub fn new(mask: &[bool; JOINT_COUNT], noise: Option<&[f64; JOINT_COUNT]>) -> Self {
        let known = |j: usize| noise.map(|n| n[j]).filter(|n| n.is_finite() && *n >= 0.0);
        Self {
            mask: *mask,
            joints: std::array::from_fn(|j| Joint::new(known(j).unwrap_or(0.0))),
            root: [0.0; 3],
            gains: Gains {
                smooth: gain(SMOOTH_S),
                fast: gain(FAST_S),
                slow: gain(SLOW_S),
                centre: gain(CENTRE_S),
                level: gain(LEVEL_S),
                decrease: gain(DECREASE_S),
                increase: gain(INCREASE_S),
            },
            recent: Box::new([[[0.0; 4]; JOINT_COUNT]; RECENT]),
            oldest: 0,
            sums: [[0.0; 4]; JOINT_COUNT],
            movements: [0.0; RECENT],
            gate: GATE,
            activity: ACTIVITY,
            running: false,
            out: Pose::identity(JOINT_COUNT),
        }
    }

    /// Starts a new stream with the next frame: the gate is shut, the learned noise is kept.
    pub fn restart(&mut self) {
        self.running = false;
    }

    /// How far the gate is open: 0 while the body stands still, 1 while it moves.
    #[must_use]
    pub fn openness(&self) -> f64 {
        self.gate.eased()
    }

    /// Factor of loudness: 0 while the gate is shut or the body stopped, 1 while it moves.
    #[must_use]
    pub fn activity(&self) -> f64 {
        self.gate.eased().min(self.activity.eased())
    }

    /// Learned jitter of each joint, radians, rms about each axis.
    #[must_use]
    pub fn noise(&self) -> [f64; JOINT_COUNT] {
        std::array::from_fn(|j| self.joints[j].noise.sqrt())
    }

    /// Takes the next grid frame (22 unit rotations); returns it unchanged, held, or between the two.
    pub fn push(&mut self, pose: &Pose) -> &Pose {
        self.out.rotations.copy_from_slice(&pose.rotations);
        self.out.root = pose.root;
        if !self.running {
            self.begin(pose);
            return &self.out;
        }
        let (movement, recent_movement) = self.measure(pose);
        self.gate.step(movement);
        let earlier = std::mem::replace(&mut self.movements[self.oldest], movement);
        // A movement from stillness is heard as soon as the gate opens, and a slow one while it goes on.
        let judges_recent = self.gate.open >= 1.0 && movement < STOPPED * earlier;
        self.activity
            .step(if judges_recent { recent_movement } else { movement });
        let follow = gain(HELD_S * (FOLLOWED_S / HELD_S).powf(self.gate.open));
        let open = self.openness();
        let is_open = self.gate.open >= 1.0;
        for ((joint, q), out) in self
            .joints
            .iter_mut()
            .zip(&pose.rotations)
            .zip(&mut self.out.rotations)
        {
            let q = same_side(q.to_array(), &joint.smooth);
            approach(&mut joint.held, &q, follow);
            if !is_open {
                let between: Vec4 = std::array::from_fn(|i| joint.held[i] + open * (q[i] - joint.held[i]));
                *out = Quat::from_array(between).normalize_or(*out);
            }
        }
        for (i, held) in self.root.iter_mut().enumerate() {
            *held += follow * (pose.root[i] - *held);
            if !is_open {
                self.out.root[i] = *held + open * (pose.root[i] - *held);
            }
        }
        &self.out
    }

    /// The pose that [`Self::push`] returned last.
    #[must_use]
    pub fn pose(&self) -> &Pose {
        &self.out
    }

    fn begin(&mut self, pose: &Pose) {
        for (joint, q) in self.joints.iter_mut().zip(&pose.rotations) {
            joint.reset(q.to_array());
        }
        self.root = pose.root;
        let rotations: [Vec4; JOINT_COUNT] = std::array::from_fn(|j| pose.rotations[j].to_array());
        self.recent.fill(rotations);
        self.sums = rotations.map(|q| q.map(|v| v * RECENT as f64));
        self.movements = [0.0; RECENT];
        (self.gate, self.activity, self.running) = (GATE, ACTIVITY, true);
    }

    /// Updates the filters; returns how far the body exceeds its noise, and how far it did in the last frames: above
    /// 1 it moves.
    fn measure(&mut self, pose: &Pose) -> (f64, f64) {
        let gains = self.gains;
        let (mut movement, mut recent_movement) = (Excess::default(), Excess::default());
        let oldest = &mut self.recent[self.oldest];
        self.oldest = (self.oldest + 1) % RECENT;
        for (j, (joint, q)) in self.joints.iter_mut().zip(&pose.rotations).enumerate() {
            if !self.mask[j] {
                continue;
            }
            let q = same_side(q.to_array(), &joint.smooth);
            approach(&mut joint.smooth, &q, gains.smooth);
            approach(&mut joint.fast[0], &joint.smooth, gains.fast);
            let once = joint.fast[0];
            approach(&mut joint.fast[1], &once, gains.fast);
            approach(&mut joint.slow, &joint.smooth, gains.slow);
            let slow_part = joint.slow;
            approach(&mut joint.centre, &slow_part, gains.centre);
            // smooth - 2 fast + fast of fast: the high-pass applied twice.
            let line: Vec4 = std::array::from_fn(|i| 2.0 * once[i] - joint.fast[1][i]);
            joint.level += gains.level * (axis_variance(&joint.smooth, &line) - joint.level);
            let measured = TOTAL_PER_FAST * TOTAL_PER_FAST * joint.level;
            let gain = if measured < joint.noise {
                gains.decrease
            } else {
                gains.increase
            };
            joint.noise =
                (joint.noise + gain * (measured - joint.noise)).clamp(FLOOR * FLOOR, joint.max_noise);
            for ((sum, oldest), newest) in self.sums[j].iter_mut().zip(&mut oldest[j]).zip(joint.smooth) {
                *sum += newest - *oldest;
                *oldest = newest;
            }
            movement.add(joint, &joint.centre);
            recent_movement.add(joint, &self.sums[j].map(|sum| sum / RECENT as f64));
        }
        (movement.exceeds(), recent_movement.exceeds())
    }
}

/// How far the joints are from a centre, in multiples of their noise, squared.
#[derive(Debug, Clone, Copy, Default)]
struct Excess {
    slow: f64,
    quick: f64,
    count: f64,
    max_slow: f64,
    max_quick: f64,
}

impl Excess {
    fn add(&mut self, joint: &Joint, centre: &Vec4) {
        let deviation = axis_variance(&joint.smooth, centre);
        if deviation > MIN_DEVIATION {
            let slow = axis_variance(&joint.slow, centre) / joint.noise;
            let quick = deviation / joint.noise;
            self.slow += slow;
            self.quick += quick;
            self.count += 1.0;
            self.max_slow = self.max_slow.max(slow);
            self.max_quick = self.max_quick.max(quick);
        }
    }

    /// Above 1 the body moves.
    fn exceeds(&self) -> f64 {
        if self.count == 0.0 {
            return 0.0;
        }
        let rms = |sum: f64| (sum / self.count).sqrt();
        // A mean over fewer joints fluctuates more.
        let spread = 1.0 + 1.0 / f64::sqrt(self.count);
        let pooled = f64::max(rms(self.slow) / SLOW_LIMIT, rms(self.quick) / QUICK_LIMIT) / spread;
        let single = f64::max(
            self.max_slow.sqrt() / JOINT_SLOW_LIMIT,
            self.max_quick.sqrt() / JOINT_QUICK_LIMIT,
        );
        // A single joint below its limit does not keep the gate open.
        if single > 1.0 { single.max(pooled) } else { pooled }
    }
}

/// The one of a rotation's two quaternions that is on the side of `near`.
fn same_side(q: Vec4, near: &Vec4) -> Vec4 {
    let dot: f64 = q.iter().zip(near).map(|(a, b)| a * b).sum();
    if dot < 0.0 { q.map(|v| -v) } else { q }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(seconds: f64) -> usize {
        (seconds * RATE).ceil() as usize
    }

    #[test]
    fn it_opens_at_once_waits_and_shuts_slowly() {
        let (mut gate, patience, closing) = (GATE, GATE.patience_s, GATE.closing_s);
        let mut swings = |movement: f64, times: usize| {
            (0..times).for_each(|_| gate.step(movement));
            gate.open
        };
        assert!((0.0..1.0).contains(&swings(1.01, frames(GATE.opening_s) - 1)));
        assert_eq!(swings(1.01, 1), 1.0);
        assert_eq!(swings(0.0, frames(patience) - 1), 1.0);
        // Any movement restarts the full waiting time.
        swings(1.01, 1);
        assert_eq!(swings(0.0, frames(patience) - 1), 1.0);
        let half = swings(0.0, frames(closing) / 2);
        assert!((0.4..0.7).contains(&half), "{half}");
        assert_eq!(swings(0.0, frames(closing) / 2 + 3), 0.0);
    }

    #[test]
    fn what_is_neither_still_nor_movement_takes_back_as_much_patience() {
        let mut gate = GATE;
        (0..10).for_each(|_| gate.step(0.0));
        let between = 0.5 * (STILL + 1.0);
        (0..7).for_each(|_| gate.step(between));
        assert!((gate.quiet - 3.0 / RATE).abs() < 1e-9);
        (0..7).for_each(|_| gate.step(between));
        assert_eq!(gate.quiet, 0.0);
    }
}
