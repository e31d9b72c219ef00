//! Relations between several performers: synchrony, who leads, distance.
//!
//! Angular speeds of joints are compared, so bodies of any size and suits with any axes can be compared. Only the past
//! is used: it is forgotten exponentially, and every step costs the same.

mod covariance;

use anticip_geometry::Quat;

use crate::canonical::{HIPS, JOINT_COUNT};
use crate::live::FRAME;
use covariance::Covariance;

/// Longest lag of a leader, frames (one second).
const MAX_LAG: usize = 50;

/// Time constants, seconds; exponential forgetting is comparable to a window of twice the length.
const SYNCHRONY_S: f64 = 1.0;
const LEADING_S: f64 = 2.0;
/// Time constant of the smoothing of speeds, seconds.
const SMOOTHING_S: f64 = 0.06;
/// Steps without a frame after which a performer is absent.
const ABSENT_AFTER: usize = 25;
/// Penalty of the longest lag: of lags that fit equally well, as in a walk, the shorter one is chosen.
const LAG_PENALTY: f32 = 0.1;
/// Correlation of strangers at their best lag.
const CHANCE: f32 = 0.3;
/// Shortest lead, frames; less cannot be distinguished from unison.
const MIN_LAG: f64 = 0.5;

/// Relations of the ensemble in one step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EnsembleState {
    /// 0..1: correlation of the joints' speeds over the last 2 s, mean of all pairs.
    pub synchrony: f64,
    /// Index of the performer who is ahead of the others over the last 4 s; `None` if they are in unison.
    pub leader: Option<usize>,
    /// Mean lead, milliseconds.
    pub lag_ms: f64,
    /// Confidence in the leader, 0..1.
    pub trust: f64,
    /// Mean distance of all pairs, metres; `None` if no pair has positions.
    pub distance: Option<f64>,
    /// Mean angle between the joints of all pairs, radians; headings do not matter.
    pub posture: f64,
}

impl EnsembleState {
    /// Fewer than two performers are present.
    const EMPTY: Self = Self {
        synchrony: 0.0,
        leader: None,
        lag_ms: 0.0,
        trust: 0.0,
        distance: None,
        posture: 0.0,
    };
}

/// State of one performer.
#[derive(Debug, Clone)]
struct Member {
    pose: [[f32; 4]; JOINT_COUNT],
    root: [f32; 3],
    number: u64,
    /// Steps since the newest frame.
    silent: usize,
    /// Steps since the performer appeared.
    steps: usize,
    is_new: bool,
    speed: [f32; JOINT_COUNT],
    smooth: [f32; JOINT_COUNT],
}

impl Member {
    fn is_present(&self) -> bool {
        self.silent <= ABSENT_AFTER
    }

    fn has_position(&self) -> bool {
        self.root != [0.0; 3]
    }
}

/// A fixed number of performers, one step every 20 ms: pass each performer's frames with `push`, then call `step`
/// once.
#[derive(Debug, Clone)]
pub struct Ensemble {
    members: Vec<Member>,
    synchrony: Covariance,
    leading: Covariance,
    /// Weight of the correlation at each lag.
    lag_weights: Vec<f32>,
}

impl Ensemble {
    /// Creates an ensemble of this many performers.
    #[must_use]
    pub fn new(performers: usize) -> Self {
        let absent = Member {
            pose: [[1.0, 0.0, 0.0, 0.0]; JOINT_COUNT],
            root: [0.0; 3],
            number: 0,
            silent: ABSENT_AFTER + 1,
            steps: 0,
            is_new: true,
            speed: [0.0; JOINT_COUNT],
            smooth: [0.0; JOINT_COUNT],
        };
        let lag_weight = |lag| 1.0 - LAG_PENALTY * lag as f32 / MAX_LAG as f32;
        Self {
            members: vec![absent; performers],
            synchrony: Covariance::new(performers, 0, SYNCHRONY_S),
            leading: Covariance::new(performers, MAX_LAG, LEADING_S),
            lag_weights: (0..=MAX_LAG).map(lag_weight).collect(),
        }
    }

    /// Number of performers.
    #[must_use]
    pub fn performers(&self) -> usize {
        self.members.len()
    }

    /// Takes a frame of one performer: its number on the performer's 50 Hz grid, the pose, and the position of the
    /// hips (zeros if unknown).
    ///
    /// # Panics
    ///
    /// `performer` is out of range.
    pub fn push(&mut self, performer: usize, number: u64, pose: &[[f32; 4]; JOINT_COUNT], root: [f32; 3]) {
        let member = &mut self.members[performer];
        let passed = number.saturating_sub(member.number);
        if !member.is_present() || passed == 0 {
            member.is_new = true;
            member.speed = [0.0; JOINT_COUNT];
        } else {
            let seconds = passed as f64 * FRAME;
            for (speed, (now, before)) in member.speed.iter_mut().zip(pose.iter().zip(&member.pose)) {
                let [now, before] = [now, before].map(|q| Quat::from_array(q.map(f64::from)));
                // Logarithm of the speed, so that bursts do not dominate.
                *speed = (before.angle_to(now) / seconds).ln_1p() as f32;
            }
        }
        (member.pose, member.root, member.number, member.silent) = (*pose, root, number, 0);
    }

    /// Advances by one step; returns the relations between the performers.
    pub fn step(&mut self) -> EnsembleState {
        let gain = 1.0 - (-FRAME / SMOOTHING_S).exp() as f32;
        for (index, member) in self.members.iter_mut().enumerate() {
            member.silent += 1;
            member.steps += 1;
            if member.is_new && member.silent <= 1 {
                member.smooth = member.speed;
                (member.is_new, member.steps) = (false, 0);
                self.synchrony.begin(index, &member.smooth);
                self.leading.begin(index, &member.smooth);
            } else {
                for (smooth, speed) in member.smooth.iter_mut().zip(&member.speed) {
                    *smooth += gain * (speed - *smooth);
                }
            }
        }
        let members = &self.members;
        let row = |index: usize| members[index].is_present().then_some(&members[index].smooth);
        self.synchrony.push(row);
        self.leading.push(row);
        let present: Vec<usize> = (0..members.len())
            .filter(|&index| members[index].is_present())
            .collect();
        if present.len() < 2 {
            return EnsembleState::EMPTY;
        }
        let (mut synchrony, mut posture, mut pairs) = (0.0, 0.0, 0.0);
        let (mut distance, mut positioned_pairs) = (0.0, 0.0);
        for (i, k) in pairs_of(&present) {
            let (one, other) = (&members[i], &members[k]);
            pairs += 1.0;
            synchrony += f64::from(self.synchrony.correlation(i, k, 0).clamp(0.0, 1.0));
            posture += f64::from(mean_angle(&one.pose, &other.pose));
            if one.has_position() && other.has_position() {
                positioned_pairs += 1.0;
                let squares = one.root.iter().zip(&other.root).map(|(a, b)| (a - b) * (a - b));
                distance += f64::from(squares.sum::<f32>().sqrt());
            }
        }
        let (leader, lag_ms, trust) = self.leader(&present);
        EnsembleState {
            synchrony: synchrony / pairs,
            leader,
            lag_ms,
            trust,
            distance: (positioned_pairs > 0.0).then(|| distance / positioned_pairs),
            posture: posture / pairs,
        }
    }

    /// Returns the leader, the lead in ms, and the confidence.
    fn leader(&self, present: &[usize]) -> (Option<usize>, f64, f64) {
        let best = self.leading.best_lags(&self.lag_weights);
        // For each performer: weighted sum of the leads over the others (frames), and sum of the weights.
        let mut leads = vec![(0.0, 0.0); self.members.len()];
        for (i, k) in pairs_of(present) {
            let (i_leads, k_leads) = (best.of(k, i), best.of(i, k));
            // A lag of `late` refers to an earlier frame of `ahead`.
            let (late, ahead, lag, sign) = if k_leads.1 > i_leads.1 {
                (i, k, k_leads.0, -1.0)
            } else {
                (k, i, i_leads.0, 1.0)
            };
            let at = |offset: isize| self.correlation_at(late, ahead, lag as isize + offset);
            let peak = ((at(0) - CHANCE) / (1.0 - CHANCE)).clamp(0.0, 1.0);
            // A pair counts less while it is new.
            let known = self.members[i].steps.min(self.members[k].steps) as f64 * FRAME;
            let weight = f64::from(peak) * (1.0 - (-known / LEADING_S).exp());
            let inner = if lag == MAX_LAG { -1 } else { 0 };
            let (left, mid, right) = (at(inner - 1), at(inner), at(inner + 1));
            let bend = left - 2.0 * mid + right;
            let shift = if bend < 0.0 {
                (0.5 * (left - right) / bend).clamp(-1.0, 1.0)
            } else {
                0.0
            };
            let frames = sign * (lag as f64 + inner as f64 + f64::from(shift));
            for (performer, sign) in [(i, 1.0), (k, -1.0)] {
                leads[performer].0 += sign * weight * frames;
                leads[performer].1 += weight;
            }
        }
        let leader = present.iter().fold(present[0], |best, &index| {
            if leads[index].0 > leads[best].0 {
                index
            } else {
                best
            }
        });
        let (lead, weight) = leads[leader];
        let trust = weight / (present.len() - 1) as f64;
        let mean = lead / weight.max(1e-9);
        if mean < MIN_LAG {
            return (None, 0.0, trust);
        }
        (Some(leader), mean * FRAME * 1000.0, trust)
    }

    /// Correlation of `late` now with `ahead` that many frames ago; a negative lag exchanges the two.
    fn correlation_at(&self, late: usize, ahead: usize, lag: isize) -> f32 {
        let frames = lag.unsigned_abs();
        if lag < 0 {
            self.leading.correlation(ahead, late, frames)
        } else {
            self.leading.correlation(late, ahead, frames)
        }
    }
}

/// All pairs, each once.
fn pairs_of(present: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    present
        .iter()
        .enumerate()
        .flat_map(move |(n, &i)| present[n + 1..].iter().map(move |&k| (i, k)))
}

/// Mean angle between the joints of two bodies except the hips, radians.
fn mean_angle(one: &[[f32; 4]; JOINT_COUNT], other: &[[f32; 4]; JOINT_COUNT]) -> f32 {
    let mut halves = [0.0; JOINT_COUNT];
    for (half, (a, b)) in halves.iter_mut().zip(one.iter().zip(other)) {
        let dot = a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3];
        *half = arc_cosine(dot.abs().min(1.0));
    }
    2.0 * halves[HIPS + 1..].iter().sum::<f32>() / (JOINT_COUNT - 1) as f32
}

/// Arc cosine of 0..1 within 3e-8 besides rounding (Abramowitz and Stegun 4.4.46), vectorisable.
fn arc_cosine(x: f32) -> f32 {
    const C: [f32; 8] = [
        std::f32::consts::FRAC_PI_2,
        -0.214_598_8,
        0.088_978_99,
        -0.050_174_3,
        0.030_891_88,
        -0.017_088_126,
        0.006_670_09,
        -0.001_262_491,
    ];
    (1.0 - x).sqrt() * C.iter().rev().fold(0.0, |sum, c| sum * x + c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arc_cosine_is_the_library_s() {
        for n in 0..=1000 {
            let x = n as f32 / 1000.0;
            assert!((arc_cosine(x) - x.acos()).abs() < 1e-6, "{x}");
        }
    }
}
