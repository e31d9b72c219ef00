//! A gate that tells what a suit trembles from what a body does: who stands still, stands still.
//!
//! A suit's jitter is as strong at 4 Hz as at half a hertz; a body moves far more slowly than it trembles. So each
//! joint's noise is read off its fast part (a second-order high-pass at 2.7 Hz), and movement is what stands out of
//! that noise in the slow part, pooled over the joints or, farther, of one joint alone. While nothing does, the pose is held; when something does, the
//! gate opens within 60 ms and the pose passes as it came, bit for bit.

use anticip_geometry::Quat;

use crate::canonical::JOINT_COUNT;
use crate::features::RATE;
use crate::pose::Pose;

type Vec4 = [f64; 4];

/// Degrees to radians.
const DEGREE: f64 = std::f64::consts::PI / 180.0;
/// What a joint is taken to tremble at least before it was heard (rms about each axis), however good it was before.
const PRIOR: f64 = DEGREE;
/// No suit is better.
const FLOOR: f64 = 0.06 * DEGREE;
/// It may come to tremble so much more than at first; what is beyond is movement.
const WORSE: f64 = 1.2;
/// Rms of jitter over the rms of its fast part: 2.7 where it is white, 3.1 where it ends at 5 Hz.
const WHOLE: f64 = 3.0;
/// Jitter that ends at 5 Hz reaches .92 and 1.36 of its rms in the slow parts pooled over 22 joints, each divided by
/// 1 + 1/sqrt(joints), in a minute; movement is what is above.
const SLOW: f64 = 1.27;
const QUICK: f64 = 1.8;
/// The same of the joint that trembles most unlike the others: a few slow waves reach 2.6 and 4.1 of what is learned.
const ALONE: (f64, f64) = (3.2, 5.0);
/// The gate begins to close when the slow parts have stayed below this share of that for so long (seconds).
const STILL: f64 = 0.6;
const PATIENCE: f64 = 0.6;
/// Seconds to open and to close.
const OPENING: f64 = 0.06;
const CLOSING: f64 = 0.5;
/// Deviations below this (radians, squared) are a joint that is not measured at all.
const DEAD: f64 = 1e-12;

/// Time constants, seconds.
const SMOOTH: f64 = 0.02;
const FAST: f64 = 0.06;
const PLACE: f64 = 0.08;
const CENTRE: f64 = 0.6;
/// Of the noise: how long is looked at, how soon less is believed, and how soon more.
const LEVEL: f64 = 1.0;
const LESS: f64 = 1.0;
const MORE: f64 = 12.0;
/// Of the held pose: while the gate is shut, and while it is open.
const HELD: f64 = 3.0;
const FOLLOWED: f64 = 0.4;

/// The share of the way that a one-pole low-pass goes in a frame.
fn share(seconds: f64) -> f64 {
    -(-1.0 / (RATE * seconds)).exp_m1()
}

fn approach(x: &mut Vec4, goal: &Vec4, share: f64) {
    for (a, b) in x.iter_mut().zip(goal) {
        *a += share * (b - *a);
    }
}

/// The squared angle between two rotations that lie close together, a third of it: about each axis.
fn apart(a: &Vec4, b: &Vec4) -> f64 {
    let square: f64 = a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum();
    4.0 / 3.0 * square
}

/// What is followed of one joint: low-passes of its rotation (four numbers, not normalised), and its noise.
#[derive(Debug, Clone, Copy)]
struct Joint {
    smooth: Vec4,
    fast: [Vec4; 2],
    place: Vec4,
    centre: Vec4,
    held: Vec4,
    /// Mean square of the fast part, rad^2.
    level: f64,
    /// Square of the noise, rad^2, and the most it may become.
    noise: f64,
    most: f64,
}

impl Joint {
    fn new(known: f64) -> Self {
        let noise = known.max(PRIOR);
        Self {
            smooth: [0.0; 4],
            fast: [[0.0; 4]; 2],
            place: [0.0; 4],
            centre: [0.0; 4],
            held: [0.0; 4],
            level: (noise / WHOLE).powi(2),
            noise: noise * noise,
            most: (WORSE * noise).powi(2),
        }
    }

    fn stand(&mut self, q: Vec4) {
        self.smooth = q;
        self.fast = [q; 2];
        self.place = q;
        self.centre = q;
        self.held = q;
    }
}

/// The shares of [`share`] for every time constant.
#[derive(Debug, Clone, Copy)]
struct Shares {
    smooth: f64,
    fast: f64,
    place: f64,
    centre: f64,
    level: f64,
    less: f64,
    more: f64,
}

/// Holds the canonical pose of a body that stands still and learns how much each joint of its suit trembles.
///
/// Works on the frames of the 50 Hz grid, looks at the past alone and allocates nothing after construction.
#[derive(Debug, Clone)]
pub struct NoiseGate {
    mask: [bool; JOINT_COUNT],
    joints: [Joint; JOINT_COUNT],
    root: [f64; 3],
    shares: Shares,
    /// 0 shut, 1 open.
    open: f64,
    /// Seconds without movement.
    quiet: f64,
    running: bool,
    out: Pose,
}

impl NoiseGate {
    /// A gate for a source that has the joints of `mask`; `noise` is the jitter of each (radians, rms about each axis),
    /// where it is known from before. What is not finite is not known.
    #[must_use]
    pub fn new(mask: &[bool; JOINT_COUNT], noise: Option<&[f64; JOINT_COUNT]>) -> Self {
        let known = |j: usize| noise.map(|n| n[j]).filter(|n| n.is_finite() && *n >= 0.0);
        Self {
            mask: *mask,
            joints: std::array::from_fn(|j| Joint::new(known(j).unwrap_or(0.0))),
            root: [0.0; 3],
            shares: Shares {
                smooth: share(SMOOTH),
                fast: share(FAST),
                place: share(PLACE),
                centre: share(CENTRE),
                level: share(LEVEL),
                less: share(LESS),
                more: share(MORE),
            },
            open: 0.0,
            quiet: 0.0,
            running: false,
            out: Pose::identity(JOINT_COUNT),
        }
    }

    /// The next frame begins a stream: the gate is shut. What was learned of the noise stays.
    pub fn restart(&mut self) {
        self.running = false;
    }

    /// How far the gate is open: 0 while the body stands still, 1 while it moves.
    #[must_use]
    pub fn openness(&self) -> f64 {
        self.open * self.open * (3.0 - 2.0 * self.open)
    }

    /// The jitter of each joint as learned so far, radians, rms about each axis.
    #[must_use]
    pub fn noise(&self) -> [f64; JOINT_COUNT] {
        std::array::from_fn(|j| self.joints[j].noise.sqrt())
    }

    /// Takes the next frame of the grid (22 unit rotations); gives it back as it came, held, or between the two.
    pub fn push(&mut self, pose: &Pose) -> &Pose {
        self.out.rotations.copy_from_slice(&pose.rotations);
        self.out.root = pose.root;
        if !self.running {
            self.begin(pose);
            return &self.out;
        }
        let movement = self.listen(pose);
        self.swing(movement);
        let follow = share(HELD * (FOLLOWED / HELD).powf(self.open));
        let open = self.openness();
        let passes = self.open >= 1.0;
        for ((joint, q), out) in self
            .joints
            .iter_mut()
            .zip(&pose.rotations)
            .zip(&mut self.out.rotations)
        {
            let q = same_side(q.to_array(), &joint.smooth);
            approach(&mut joint.held, &q, follow);
            if !passes {
                let between: Vec4 = std::array::from_fn(|i| joint.held[i] + open * (q[i] - joint.held[i]));
                *out = Quat::from_array(between).normalize_or(*out);
            }
        }
        for (i, held) in self.root.iter_mut().enumerate() {
            *held += follow * (pose.root[i] - *held);
            if !passes {
                self.out.root[i] = *held + open * (pose.root[i] - *held);
            }
        }
        &self.out
    }

    /// The pose that [`Self::push`] gave last.
    #[must_use]
    pub fn pose(&self) -> &Pose {
        &self.out
    }

    fn begin(&mut self, pose: &Pose) {
        for (joint, q) in self.joints.iter_mut().zip(&pose.rotations) {
            joint.stand(q.to_array());
        }
        self.root = pose.root;
        (self.open, self.quiet, self.running) = (0.0, 0.0, true);
    }

    /// How far the body stands out of its noise: above 1 it moves.
    fn listen(&mut self, pose: &Pose) -> f64 {
        let s = self.shares;
        let (mut slow, mut quick, mut count) = (0.0, 0.0, 0.0);
        let (mut far_slow, mut far_quick) = (0.0_f64, 0.0_f64);
        for (j, (joint, q)) in self.joints.iter_mut().zip(&pose.rotations).enumerate() {
            if !self.mask[j] {
                continue;
            }
            let q = same_side(q.to_array(), &joint.smooth);
            approach(&mut joint.smooth, &q, s.smooth);
            approach(&mut joint.fast[0], &joint.smooth, s.fast);
            let once = joint.fast[0];
            approach(&mut joint.fast[1], &once, s.fast);
            approach(&mut joint.place, &joint.smooth, s.place);
            let place = joint.place;
            approach(&mut joint.centre, &place, s.centre);
            // smooth - 2 fast + fast of fast: the high-pass applied twice.
            let line: Vec4 = std::array::from_fn(|i| 2.0 * once[i] - joint.fast[1][i]);
            joint.level += s.level * (apart(&joint.smooth, &line) - joint.level);
            let heard = WHOLE * WHOLE * joint.level;
            let rate = if heard < joint.noise { s.less } else { s.more };
            joint.noise = (joint.noise + rate * (heard - joint.noise)).clamp(FLOOR * FLOOR, joint.most);
            let off = apart(&joint.smooth, &joint.centre);
            if off > DEAD {
                let (place, off) = (
                    apart(&joint.place, &joint.centre) / joint.noise,
                    off / joint.noise,
                );
                (slow, quick, count) = (slow + place, quick + off, count + 1.0);
                (far_slow, far_quick) = (far_slow.max(place), far_quick.max(off));
            }
        }
        if count == 0.0 {
            return 0.0;
        }
        // The mean over few joints wanders more.
        let wander = 1.0 + 1.0 / f64::sqrt(count);
        let together = f64::max((slow / count).sqrt() / SLOW, (quick / count).sqrt() / QUICK) / wander;
        let alone = f64::max(far_slow.sqrt() / ALONE.0, far_quick.sqrt() / ALONE.1);
        // That one joint is near its limit is no reason to stay open.
        if alone > 1.0 {
            alone.max(together)
        } else {
            together
        }
    }

    fn swing(&mut self, movement: f64) {
        if movement > 1.0 {
            self.quiet = 0.0;
            self.open = (self.open + 1.0 / (RATE * OPENING)).min(1.0);
        } else if movement < STILL {
            self.quiet += 1.0 / RATE;
            if self.quiet > PATIENCE {
                self.open = (self.open - 1.0 / (RATE * CLOSING)).max(0.0);
            }
        } else {
            self.quiet = (self.quiet - 1.0 / RATE).max(0.0);
        }
    }
}

/// The one of the two quaternions of a rotation that lies on the side of `near`.
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
        let mut gate = NoiseGate::new(&[true; JOINT_COUNT], None);
        let mut swings = |movement: f64, times: usize| {
            (0..times).for_each(|_| gate.swing(movement));
            gate.open
        };
        assert!((0.0..1.0).contains(&swings(1.01, frames(OPENING) - 1)));
        assert_eq!(swings(1.01, 1), 1.0);
        assert_eq!(swings(0.0, frames(PATIENCE) - 1), 1.0);
        // A movement in between, and all of the patience is needed again.
        swings(1.01, 1);
        assert_eq!(swings(0.0, frames(PATIENCE) - 1), 1.0);
        let half = swings(0.0, frames(CLOSING) / 2);
        assert!((0.4..0.7).contains(&half), "{half}");
        assert_eq!(swings(0.0, frames(CLOSING) / 2 + 3), 0.0);
    }

    #[test]
    fn what_is_neither_still_nor_movement_takes_back_as_much_patience() {
        let mut gate = NoiseGate::new(&[true; JOINT_COUNT], None);
        (0..10).for_each(|_| gate.swing(0.0));
        let between = 0.5 * (STILL + 1.0);
        (0..7).for_each(|_| gate.swing(between));
        assert!((gate.quiet - 3.0 / RATE).abs() < 1e-9);
        (0..7).for_each(|_| gate.swing(between));
        assert_eq!(gate.quiet, 0.0);
    }
}
