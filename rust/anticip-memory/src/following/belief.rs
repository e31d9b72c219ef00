//! Belief in a stretch of one take: where in it, and how fast it goes.

use pulp::Arch;

use super::posture::{Posture, apart, dot};
use super::rehearsal::Rehearsal;

/// Tempi against the rehearsal, in steps of a fifth; the first two are standing still and hardly moving.
pub(super) const TEMPI: [f32; TEMPO_COUNT] = [0.0, 0.35, 0.57, 0.69, 0.83, 1.0, 1.2, 1.45];
const TEMPO_COUNT: usize = 8;
/// Belief in each tempo at one frame of the rehearsal.
pub(super) type Row = [f32; TEMPO_COUNT];

/// How common each tempo is: what is drawn to where nothing speaks for another, and at which who was lost moves on.
pub(super) const ANY_TEMPO: Row = [0.05, 0.05, 0.1, 0.15, 0.2, 0.2, 0.15, 0.1];
/// Chances a frame: one tempo up or down; a stop; going on after one.
const DRIFT: f32 = 0.03;
const STOP: f32 = 0.001;
const RESUME: f32 = 0.05;
const RESUMED: Row = [0.0, 0.21, 0.105, 0.105, 0.16, 0.21, 0.16, 0.05];
/// What place wanders in a frame, frames squared: moving, and standing still.
const WANDER: f32 = 0.2;
const STILL: f32 = 0.02;
/// Chance a frame that what is done is no longer in the rehearsal.
pub(super) const LEAVE: f32 = 0.0005;

/// Postures and velocities are measured so many frames late.
const DELAY: f32 = super::posture::HALF as f32;
/// Frames of the rehearsal before the present one that a late one may be of: the delay at the highest tempo.
const BEFORE: usize = 5;
/// Frames that a step may reach: one back, five ahead.
const BACK: usize = 1;
const REACH: usize = 7;
/// A stretch has no more frames than these: six seconds.
const LONGEST: usize = 300;
/// Ends of a stretch that hold less than this share of its belief are cut off.
const NEGLIGIBLE: f32 = 1e-5;

/// What is seen in a frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) place: Posture,
    pub(super) velocity: Posture,
    /// False in the first frames, whose velocity nobody knows.
    pub(super) moving: bool,
    /// What the same movement done again differs by, squared: places (m^2), velocities ((m/s)^2).
    pub(super) scale: [f32; 2],
    /// How likely this is in a frame in which something else is done.
    pub(super) elsewhere: f32,
    /// The share of its log likelihood that counts between stretches.
    pub(super) weight: f32,
}

/// How belief moves within one or two frames.
#[derive(Debug, Clone)]
pub(super) struct Motion {
    pub(super) frames: u8,
    taps: [Row; REACH],
    stay: Row,
    up: Row,
    down: Row,
    stop: f32,
    resume: Row,
}

impl Motion {
    pub(super) fn new(frames: u8) -> Self {
        let n = f32::from(frames);
        let mut taps = [[0.0; TEMPO_COUNT]; REACH];
        for (k, tempo) in TEMPI.iter().enumerate() {
            let (whole, part) = ((tempo * n).floor() as usize, (tempo * n).fract());
            // A way between two frames is shared by both, which is some wandering already.
            let wander = n * if k == 0 { STILL } else { WANDER };
            let aside = ((wander - part * (1.0 - part)) / 2.0).max(0.0);
            let blur = [aside, 1.0 - 2.0 * aside, aside];
            for (i, b) in blur.iter().enumerate() {
                taps[whole + i][k] += (1.0 - part) * b;
                taps[whole + i + 1][k] += part * b;
            }
        }
        // Towards a rarer tempo more seldom, so that without evidence they stay as common as they are.
        let drift = |from: usize, to: usize| DRIFT * n * (ANY_TEMPO[to] / ANY_TEMPO[from]).min(1.0);
        let (mut up, mut down) = ([0.0; TEMPO_COUNT], [0.0; TEMPO_COUNT]);
        for k in 1..TEMPO_COUNT - 1 {
            (up[k], down[k + 1]) = (drift(k, k + 1), drift(k + 1, k));
        }
        let stop = STOP * n;
        let mut stay: Row = std::array::from_fn(|k| 1.0 - up[k] - down[k] - stop);
        stay[0] = 1.0 - RESUME * n;
        Self {
            frames,
            taps,
            stay,
            up,
            down,
            stop,
            resume: RESUMED.map(|share| share * RESUME * n),
        }
    }

    /// The belief of one frame after its tempo may have changed.
    fn change(&self, row: &Row) -> Row {
        let mut out: Row = std::array::from_fn(|k| row[k] * self.stay[k] + row[0] * self.resume[k]);
        for k in 1..TEMPO_COUNT - 1 {
            out[k] += self.down[k + 1] * row[k + 1];
            out[k + 1] += self.up[k] * row[k];
        }
        out[0] += self.stop * row[1..].iter().sum::<f32>();
        out
    }
}

/// Room that a step works in.
#[derive(Debug, Clone, Default)]
pub(super) struct Scratch {
    rows: Vec<Row>,
    along: Vec<[f32; 3]>,
    pub(super) known: Vec<Posture>,
}

/// Consecutive frames of a take, and how much each is believed in; together with all else it sums to one.
#[derive(Debug, Clone)]
pub(super) struct Stretch {
    pub(super) take: usize,
    pub(super) start: usize,
    pub(super) rows: Vec<Row>,
}

pub(super) fn mass(row: &Row) -> f32 {
    row.iter().sum()
}

impl Stretch {
    pub(super) fn end(&self) -> usize {
        self.start + self.rows.len()
    }

    pub(super) fn mass(&self) -> f32 {
        self.rows.iter().map(mass).sum()
    }

    pub(super) fn scale(&mut self, by: f32) {
        self.rows.iter_mut().flatten().for_each(|w| *w *= by);
    }

    /// Takes the belief of another stretch of the same take in.
    pub(super) fn merge(&mut self, other: &Self) {
        let end = self.end().max(other.end());
        self.rows.resize(end - self.start, [0.0; TEMPO_COUNT]);
        for (row, more) in self.rows[other.start - self.start..].iter_mut().zip(&other.rows) {
            row.iter_mut().zip(more).for_each(|(w, m)| *w += m);
        }
    }

    /// Believes in each of these frames by so much more.
    pub(super) fn add(&mut self, frames: std::ops::Range<usize>, each: f32) {
        if frames.is_empty() {
            return;
        }
        if self.rows.is_empty() {
            self.start = frames.start;
        }
        if frames.start < self.start {
            let more = self.start - frames.start;
            self.rows
                .splice(0..0, std::iter::repeat_n([0.0; TEMPO_COUNT], more));
            self.start = frames.start;
        }
        if frames.end > self.end() {
            self.rows.resize(frames.end - self.start, [0.0; TEMPO_COUNT]);
        }
        for row in &mut self.rows[frames.start - self.start..frames.end - self.start] {
            row.iter_mut()
                .zip(ANY_TEMPO)
                .for_each(|(w, share)| *w += share * each);
        }
    }

    /// Moves on by the frames of `motion` and weighs every place by how likely it makes what is seen.
    pub(super) fn step(&mut self, at: &Rehearsal, motion: &Motion, seen: &Seen, scratch: &mut Scratch) {
        self.predict(at, motion, scratch);
        self.trim();
        self.weigh(at, motion, seen, scratch);
        self.trim();
    }

    fn predict(&mut self, at: &Rehearsal, motion: &Motion, scratch: &mut Scratch) {
        let take = at.frames(self.take);
        let first = self.start.saturating_sub(BACK).max(take.start);
        let end = (self.end() + REACH - BACK).min(take.end);
        let out = &mut scratch.rows;
        out.clear();
        out.resize(end - first, [0.0; TEMPO_COUNT]);
        for (i, row) in self.rows.iter().enumerate() {
            let changed = motion.change(row);
            for (reach, tap) in motion.taps.iter().enumerate() {
                let Some(to) = (self.start + i + reach).checked_sub(first + BACK) else {
                    continue;
                };
                let Some(to) = out.get_mut(to) else { break };
                for k in 0..TEMPO_COUNT {
                    to[k] += tap[k] * changed[k];
                }
            }
        }
        std::mem::swap(&mut self.rows, out);
        self.start = first;
    }

    fn weigh(&mut self, at: &Rehearsal, motion: &Motion, seen: &Seen, scratch: &mut Scratch) {
        Arch::new().dispatch(|| self.compare(at, seen, scratch));
        let along = &scratch.along;
        let speed = dot(&seen.velocity, &seen.velocity);
        let place = 1.0 / seen.scale[0];
        let velocity = f32::from(u8::from(seen.moving)) / seen.scale[1];
        let keep = 1.0 - LEAVE * f32::from(motion.frames);
        // What was rehearsed as many frames ago as postures are late, at this tempo.
        let ago = TEMPI.map(|tempo| (tempo * DELAY).ceil());
        let delays: [_; TEMPO_COUNT] = std::array::from_fn(|k| (ago[k] as usize, ago[k] - TEMPI[k] * DELAY));
        for (i, row) in self.rows.iter_mut().enumerate() {
            for (k, w) in row.iter_mut().enumerate() {
                let (ago, part) = delays[k];
                let near = i + BEFORE - ago;
                let [a, b] = [along[near], along[(near + 1).min(along.len() - 1)]];
                let [cross, square, off] = [0, 1, 2].map(|n| a[n] + part * (b[n] - a[n]));
                let away = (speed + TEMPI[k] * (TEMPI[k] * square - 2.0 * cross)).max(0.0);
                let unlikely = (1.0 + place * off) * (1.0 + velocity * away);
                *w *= keep
                    / if motion.frames == 2 {
                        unlikely * unlikely
                    } else {
                        unlikely
                    };
            }
        }
    }

    /// Leaves in `along` how far what is seen is from each place, and from some before the first.
    #[inline(always)]
    fn compare(&self, at: &Rehearsal, seen: &Seen, scratch: &mut Scratch) {
        let Scratch { along, known, .. } = scratch;
        let first = self.start.saturating_sub(BEFORE).max(at.frames(self.take).start);
        // Before a take all is as at its start.
        let missing = self.rows.len() + BEFORE - (self.end() - first);
        along.clear();
        along.resize(missing, [0.0; 3]);
        at.seen(self.take, first..self.end(), known, |[place, velocity]| {
            along.push([
                dot(&seen.velocity, velocity),
                dot(velocity, velocity),
                apart(&seen.place, place),
            ]);
        });
        if let Some(&start) = along.get(missing) {
            along[..missing].fill(start);
        }
    }

    /// Cuts off ends that hold next to nothing, and the lighter ones of what is too long.
    fn trim(&mut self) {
        let least = NEGLIGIBLE * self.mass();
        let heavy = |row: &Row| mass(row) > least;
        let Some(mut first) = self.rows.iter().position(heavy) else {
            self.rows.clear();
            return;
        };
        let mut end = self.rows.iter().rposition(heavy).map_or(first, |last| last + 1);
        while end - first > LONGEST {
            if mass(&self.rows[first]) < mass(&self.rows[end - 1]) {
                first += 1;
            } else {
                end -= 1;
            }
        }
        self.rows.truncate(end);
        self.rows.drain(..first);
        self.start += first;
    }
}

#[cfg(test)]
mod tests {
    use anticip_motion::canonical::JOINT_COUNT;

    use super::*;

    #[test]
    fn what_holds_no_belief_has_no_frames_also_where_a_take_begins() {
        let take = [[[1.0, 0.0, 0.0, 0.0]; JOINT_COUNT]; 40];
        let rehearsal = Rehearsal::new([take]).expect("a take");
        let seen = Seen {
            place: [0.0; 32],
            velocity: [0.0; 32],
            moving: true,
            scale: [1.0; 2],
            elsewhere: 1.0,
            weight: 1.0,
        };
        for start in [0, 3, 20] {
            let (take, rows) = (0, vec![[0.0; TEMPO_COUNT]; 3]);
            let mut stretch = Stretch { take, start, rows };
            stretch.step(&rehearsal, &Motion::new(1), &seen, &mut Scratch::default());
            assert!(stretch.rows.is_empty(), "{start}");
        }
    }

    #[test]
    fn belief_in_more_frames_is_added_to_what_there_is() {
        let mut belief = Stretch {
            take: 0,
            start: 0,
            rows: Vec::new(),
        };
        for (frames, start, end) in [
            (100..110, 100, 110),
            (95..105, 95, 110),
            (108..120, 95, 120),
            (97..99, 95, 120),
        ] {
            belief.add(frames, 1.0);
            assert_eq!((belief.start, belief.end()), (start, end));
        }
        belief.add(50..50, 1.0);
        let times: Vec<f32> = belief.rows.iter().map(|row| mass(row).round()).collect();
        let wanted = |frame: usize| {
            [100..110, 95..105, 108..120, 97..99]
                .iter()
                .filter(|f| f.contains(&frame))
                .count()
        };
        assert_eq!(
            times,
            (95..120).map(|frame| wanted(frame) as f32).collect::<Vec<_>>()
        );
    }
}
