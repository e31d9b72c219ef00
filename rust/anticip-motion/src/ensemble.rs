//! How several performers stand to each other: together or not, who leads, how far apart.
//!
//! What is compared is how fast each joint turns, so bodies of any size and suits of any axes compare. Of the past
//! alone: everything is forgotten exponentially, and every step costs the same.

mod covariance;

use anticip_geometry::Quat;

use crate::canonical::{HIPS, JOINT_COUNT};
use crate::live::FRAME;
use covariance::Covariance;

/// Frames: nobody is taken to lead by more than a second.
const LONGEST_LAG: usize = 50;

/// Time constants, seconds: forgetting so weighs as a window of twice the length does.
const UNISON: f64 = 1.0;
const LEADING: f64 = 2.0;
const SMOOTHED: f64 = 0.06;
/// Who was not heard for so many steps is not there.
const GONE: usize = 25;
/// Of lags that fit as well, as in a walk, the shorter one: the longest counts so much less.
const FAR: f32 = 0.1;
/// So alike are strangers at their best lag.
const CHANCE: f32 = 0.3;
/// Frames: who leads by less is not told from unison.
const LEAST_LAG: f64 = 0.5;

/// One step of an ensemble.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Together {
    /// 0..1: how alike the speeds of the joints rose and fell in the last 2 s, mean of all pairs.
    pub synchrony: f64,
    /// Who is ahead of the others by the last 4 s; nobody where they are at one.
    pub leader: Option<usize>,
    /// By how many ms on average.
    pub lag_ms: f64,
    /// How surely, 0..1.
    pub trust: f64,
    /// Metres, mean of all pairs; unknown where nobody says where they are.
    pub distance: Option<f64>,
    /// Radians between their joints, mean of all pairs, whichever way they face.
    pub posture: f64,
}

impl Together {
    /// Fewer than two are there.
    const NOBODY: Self = Self {
        synchrony: 0.0,
        leader: None,
        lag_ms: 0.0,
        trust: 0.0,
        distance: None,
        posture: 0.0,
    };
}

/// What is known of one performer.
#[derive(Debug, Clone)]
struct Member {
    pose: [[f32; 4]; JOINT_COUNT],
    root: [f32; 3],
    number: u64,
    /// Steps since the newest frame.
    silent: usize,
    /// Steps since they came.
    steps: usize,
    is_new: bool,
    speed: [f32; JOINT_COUNT],
    smooth: [f32; JOINT_COUNT],
}

impl Member {
    fn is_there(&self) -> bool {
        self.silent <= GONE
    }

    fn is_placed(&self) -> bool {
        self.root != [0.0; 3]
    }
}

/// So many performers, one step every 20 ms: hear what each one's body does as it comes, then step once for all.
#[derive(Debug, Clone)]
pub struct Ensemble {
    members: Vec<Member>,
    unison: Covariance,
    leading: Covariance,
    /// Of each lag, how much a likeness at it counts.
    nearness: Vec<f32>,
}

impl Ensemble {
    /// Of so many.
    #[must_use]
    pub fn new(performers: usize) -> Self {
        let absent = Member {
            pose: [[1.0, 0.0, 0.0, 0.0]; JOINT_COUNT],
            root: [0.0; 3],
            number: 0,
            silent: GONE + 1,
            steps: 0,
            is_new: true,
            speed: [0.0; JOINT_COUNT],
            smooth: [0.0; JOINT_COUNT],
        };
        let nearness = |lag| 1.0 - FAR * lag as f32 / LONGEST_LAG as f32;
        Self {
            members: vec![absent; performers],
            unison: Covariance::new(performers, 0, UNISON),
            leading: Covariance::new(performers, LONGEST_LAG, LEADING),
            nearness: (0..=LONGEST_LAG).map(nearness).collect(),
        }
    }

    /// How many there may be.
    #[must_use]
    pub fn performers(&self) -> usize {
        self.members.len()
    }

    /// Takes a frame of performer `who`: its number on their 50 Hz grid, the pose, where the hips are (zeros: not
    /// known).
    ///
    /// # Panics
    ///
    /// `who` is none of the performers.
    pub fn hear(&mut self, who: usize, number: u64, pose: &[[f32; 4]; JOINT_COUNT], root: [f32; 3]) {
        let member = &mut self.members[who];
        let passed = number.saturating_sub(member.number);
        if !member.is_there() || passed == 0 {
            member.is_new = true;
            member.speed = [0.0; JOINT_COUNT];
        } else {
            let seconds = passed as f64 * FRAME;
            for (speed, (now, before)) in member.speed.iter_mut().zip(pose.iter().zip(&member.pose)) {
                let [now, before] = [now, before].map(|q| Quat::from_array(q.map(f64::from)));
                // Speeds add up, bursts should not be all there is.
                *speed = (before.angle_to(now) / seconds).ln_1p() as f32;
            }
        }
        (member.pose, member.root, member.number, member.silent) = (*pose, root, number, 0);
    }

    /// Where they all stand now.
    pub fn step(&mut self) -> Together {
        let new = 1.0 - (-FRAME / SMOOTHED).exp() as f32;
        for (who, member) in self.members.iter_mut().enumerate() {
            member.silent += 1;
            member.steps += 1;
            if member.is_new && member.silent <= 1 {
                member.smooth = member.speed;
                (member.is_new, member.steps) = (false, 0);
                self.unison.begin(who, &member.smooth);
                self.leading.begin(who, &member.smooth);
            } else {
                for (smooth, speed) in member.smooth.iter_mut().zip(&member.speed) {
                    *smooth += new * (speed - *smooth);
                }
            }
        }
        let members = &self.members;
        let row = |who: usize| members[who].is_there().then_some(&members[who].smooth);
        self.unison.push(row);
        self.leading.push(row);
        let there: Vec<usize> = (0..members.len())
            .filter(|&who| members[who].is_there())
            .collect();
        if there.len() < 2 {
            return Together::NOBODY;
        }
        let (mut synchrony, mut posture, mut pairs) = (0.0, 0.0, 0.0);
        let (mut distance, mut placed) = (0.0, 0.0);
        for (i, k) in pairs_of(&there) {
            let (one, other) = (&members[i], &members[k]);
            pairs += 1.0;
            synchrony += f64::from(self.unison.correlation(i, k, 0).clamp(0.0, 1.0));
            posture += f64::from(apart(&one.pose, &other.pose));
            if one.is_placed() && other.is_placed() {
                placed += 1.0;
                let squares = one.root.iter().zip(&other.root).map(|(a, b)| (a - b) * (a - b));
                distance += f64::from(squares.sum::<f32>().sqrt());
            }
        }
        let (leader, lag_ms, trust) = self.leader(&there);
        Together {
            synchrony: synchrony / pairs,
            leader,
            lag_ms,
            trust,
            distance: (placed > 0.0).then(|| distance / placed),
            posture: posture / pairs,
        }
    }

    /// Who is ahead of the others, by how many ms, how surely.
    fn leader(&self, there: &[usize]) -> (Option<usize>, f64, f64) {
        let best = self.leading.best_lags(&self.nearness);
        // Of each performer: by how many frames they are ahead of the others, times how surely, and the sum of that.
        let mut leads = vec![(0.0, 0.0); self.members.len()];
        for (i, k) in pairs_of(there) {
            let (i_leads, k_leads) = (best.of(k, i), best.of(i, k));
            // The lag counts back to whoever was ahead.
            let (late, ahead, lag, sign) = if k_leads.1 > i_leads.1 {
                (i, k, k_leads.0, -1.0)
            } else {
                (k, i, i_leads.0, 1.0)
            };
            let at = |offset: isize| self.signed(late, ahead, lag as isize + offset);
            let peak = ((at(0) - CHANCE) / (1.0 - CHANCE)).clamp(0.0, 1.0);
            // What is known of them so far counts.
            let known = self.members[i].steps.min(self.members[k].steps) as f64 * FRAME;
            let weight = f64::from(peak) * (1.0 - (-known / LEADING).exp());
            let inner = if lag == LONGEST_LAG { -1 } else { 0 };
            let (left, mid, right) = (at(inner - 1), at(inner), at(inner + 1));
            let bend = left - 2.0 * mid + right;
            let shift = if bend < 0.0 {
                (0.5 * (left - right) / bend).clamp(-1.0, 1.0)
            } else {
                0.0
            };
            let frames = sign * (lag as f64 + inner as f64 + f64::from(shift));
            for (who, sign) in [(i, 1.0), (k, -1.0)] {
                leads[who].0 += sign * weight * frames;
                leads[who].1 += weight;
            }
        }
        let first = there[0];
        let leader = there.iter().fold(
            first,
            |most, &who| if leads[who].0 > leads[most].0 { who } else { most },
        );
        let (lead, weight) = leads[leader];
        let trust = weight / (there.len() - 1) as f64;
        let mean = lead / weight.max(1e-9);
        if mean < LEAST_LAG {
            return (None, 0.0, trust);
        }
        (Some(leader), mean * FRAME * 1000.0, trust)
    }

    /// How `late` now is like `ahead` so many frames ago; before 0, the other way round.
    fn signed(&self, late: usize, ahead: usize, lag: isize) -> f32 {
        let frames = lag.unsigned_abs();
        if lag < 0 {
            self.leading.correlation(ahead, late, frames)
        } else {
            self.leading.correlation(late, ahead, frames)
        }
    }
}

/// Every two of them once.
fn pairs_of(there: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    there
        .iter()
        .enumerate()
        .flat_map(move |(n, &i)| there[n + 1..].iter().map(move |&k| (i, k)))
}

/// The mean angle between the joints of two bodies but for the hips, radians.
fn apart(one: &[[f32; 4]; JOINT_COUNT], other: &[[f32; 4]; JOINT_COUNT]) -> f32 {
    let mut halves = [0.0; JOINT_COUNT];
    for (half, (a, b)) in halves.iter_mut().zip(one.iter().zip(other)) {
        let dot = a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3];
        *half = arc_cosine(dot.abs().min(1.0));
    }
    2.0 * halves[HIPS + 1..].iter().sum::<f32>() / (JOINT_COUNT - 1) as f32
}

/// The arc cosine of 0..1 within 3e-8 but for rounding (Abramowitz and Stegun 4.4.46), for many numbers at once.
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
