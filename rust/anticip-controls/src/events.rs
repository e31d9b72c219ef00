//! When events are announced: two rules over the model's hazards and its commitment gate.

use crate::EVENT_COUNT;
use crate::vectors::{BIN_MS, unit};

const BEAT: usize = 0;
/// Bins that an announcement holds for, its 100 ms; and how many places of those are looked at.
const WIDE: usize = 5;
const PLACES: usize = 8;
/// How long an event may wait to be announced; how much of the reach is looked at, in bins; what makes one pending
/// that could also come sooner, and a beat be said before its own last moment where the frame asks for more; how far
/// around a bin its neighbours count. All were chosen with the threshold.
const WAIT_MS: f64 = 100.0;
const SPAN: usize = 7;
const SURE: f64 = 0.6;
const BESIDE: usize = 2;
/// A beat is called off when less than this chance is left within so many bins of its moment, and so many seconds
/// before it. Chosen on the validation subjects (docs/latency.md).
const FALLEN: f64 = 0.15;
const AROUND: usize = 3;
const IN_TIME: f64 = 0.06;

/// An event that is announced, or called off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Event {
    /// Which one, in the order of the vocabulary.
    pub kind: usize,
    /// It was announced for this moment and will not come.
    pub cancelled: bool,
    /// Its chance, 0..1.
    pub strength: f64,
    /// Seconds.
    pub ahead: f64,
}

/// What makes the second rule of the first: beats wait for the last moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LastMoment {
    /// How far ahead beats are announced at least, whatever lead a frame is given with.
    pub lead_ms: f64,
    /// The chance that is waited no longer with.
    pub sure: f64,
}

/// Turns hazards and the commitment gate into events, each announced once. What the rules are is said where
/// the vocabulary of the program is documented: `pyanticip.controls.EventTrigger` and `LastMoment`.
#[derive(Debug, Clone)]
pub struct Trigger {
    levels: [f64; EVENT_COUNT],
    pauses: [f64; EVENT_COUNT],
    theta: f64,
    most: u32,
    reach_ms: f64,
    last_moment: Option<LastMoment>,
    // Frames that an event has waited; None: it is not pending.
    waited: [Option<u32>; EVENT_COUNT],
    quiet: [f64; EVENT_COUNT],
    // Seconds until the beats that were said, those included whose pause is not over.
    announced: Vec<f64>,
}

impl Trigger {
    /// Thresholds and refractory seconds of the events; `theta` in 0..1, `most` frames of waiting, a reach in ms.
    #[must_use]
    pub fn new(
        levels: [f64; EVENT_COUNT],
        pauses: [f64; EVENT_COUNT],
        (theta, most): (f64, u32),
        reach_ms: f64,
        last_moment: Option<LastMoment>,
    ) -> Self {
        Self {
            levels,
            pauses,
            theta,
            most: most.max(1),
            reach_ms,
            last_moment,
            waited: [None; EVENT_COUNT],
            quiet: [0.0; EVENT_COUNT],
            announced: Vec::new(),
        }
    }

    /// Forgets what was pending or announced.
    pub fn reset(&mut self) {
        self.waited = [None; EVENT_COUNT];
        self.quiet = [0.0; EVENT_COUNT];
        self.announced.clear();
    }

    /// `dt` seconds of which nothing is known: what was announced comes nearer, and pauses end.
    pub fn pass(&mut self, dt: f64) {
        let pause = self.pauses[BEAT];
        self.announced.retain_mut(|due| {
            *due -= dt;
            *due > -pause
        });
        self.quiet
            .iter_mut()
            .for_each(|quiet| *quiet = (*quiet - dt).max(0.0));
    }

    /// The events of a frame, `dt` seconds after the last; what is called off comes first.
    ///
    /// `hazards` are the probabilities that an event falls into a bin if it has not come before it.
    pub fn step(&mut self, hazards: [&[f64]; EVENT_COUNT], gate: f64, lead_ms: f64, dt: f64) -> Vec<Event> {
        let mut out = Vec::new();
        if !self.announced.is_empty() {
            self.call_off(hazards[BEAT], dt, &mut out);
        }
        for (kind, row) in hazards.into_iter().enumerate() {
            self.quiet[kind] = (self.quiet[kind] - dt).max(0.0);
            let found = match self.last_moment {
                Some(rule) if kind == BEAT => self.last_moment(rule, row, gate, lead_ms),
                _ => self.pending(kind, row, gate, lead_ms),
            };
            let Some((chance, ahead)) = found else { continue };
            self.waited[kind] = None;
            self.quiet[kind] = ahead + self.pauses[kind];
            if kind == BEAT && self.last_moment.is_some() {
                self.announced.push(ahead);
            }
            out.push(Event {
                kind,
                cancelled: false,
                strength: chance.min(1.0),
                ahead,
            });
        }
        out
    }

    /// Chance and seconds ahead of an event that is announced in this frame.
    fn pending(&mut self, kind: usize, row: &[f64], gate: f64, lead_ms: f64) -> Option<(f64, f64)> {
        let reach_ms = if lead_ms > 0.0 {
            (lead_ms + WAIT_MS).max(self.reach_ms)
        } else {
            self.reach_ms
        };
        let last = bins((reach_ms / BIN_MS).ceil()).max(1);
        let first = last.saturating_sub(SPAN);
        let masses = bin_chances(&row[..row.len().min(last + BESIDE)]);
        let (mut level, mut begin) = (self.levels[kind], first);
        let mut chance = held(&masses, first, last);
        if chance < level {
            begin = bins((lead_ms / BIN_MS).round_ties_even()).min(last - 1);
            level = level.max(SURE);
            chance = held(&masses, begin, last);
        }
        if self.quiet[kind] > 0.0 || chance < level {
            self.waited[kind] = None;
            return None;
        }
        let waited = self.wait(kind);
        opens(self.theta, self.most, waited, gate).then(|| {
            (
                chance,
                likeliest(&masses, begin.saturating_sub(BESIDE)) * (BIN_MS / 1000.0),
            )
        })
    }

    fn wait(&mut self, kind: usize) -> u32 {
        let waited = self.waited[kind].map_or(0, |n| n.saturating_add(1));
        self.waited[kind] = Some(waited);
        waited
    }

    fn last_moment(&mut self, rule: LastMoment, row: &[f64], gate: f64, lead_ms: f64) -> Option<(f64, f64)> {
        let masses = bin_chances(row);
        let last = masses.len().saturating_sub(WIDE);
        let ahead = |ms: f64| bins((ms / BIN_MS - 1e-9).ceil()).min(last);
        let (nearest, wished) = (ahead(rule.lead_ms), ahead(lead_ms.max(rule.lead_ms)));
        let places = nearest..=(wished + PLACES - 1).min(last);
        let chances: Vec<f64> = places.map(|b| held(&masses, b, b + WIDE)).collect();
        let most = chances.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let best = chances.iter().position(|&chance| chance > most - 1e-9)?;
        let chance = chances[best];
        let (quiet, certain) = (self.quiet[BEAT] > 0.0, chance >= rule.sure);
        let mut early = false;
        if certain && !quiet {
            let waited = self.wait(BEAT);
            early = opens(self.theta, self.most, waited, gate);
        } else {
            self.waited[BEAT] = None;
        }
        let place = nearest + best;
        // Later than wished rather than never: what is not sure so far ahead is once more looked at when it is due.
        let level = if best == 0 {
            self.levels[BEAT]
        } else {
            self.levels[BEAT].max(SURE)
        };
        if quiet || !(early || (place <= wished && chance >= level)) {
            return None;
        }
        let first = place.saturating_sub(BESIDE);
        let near = &masses[first..(place + WIDE + BESIDE).min(masses.len())];
        // An event is a frame of the grid, which is the end of its bin.
        let ends = near.iter().zip(first + 1..).map(|(mass, end)| mass * end as f64);
        let due = ends.fold(0.0, |sum, part| sum + part) / held(near, 0, near.len());
        Some((chance, due.max(nearest as f64) * BIN_MS / 1000.0))
    }

    fn call_off(&mut self, row: &[f64], dt: f64, out: &mut Vec<Event>) {
        let pause = self.pauses[BEAT];
        let masses = bin_chances(row);
        let before = out.len();
        self.announced.retain_mut(|due| {
            *due -= dt;
            if *due <= -pause || *due < IN_TIME {
                return *due > -pause;
            }
            let middle = bins((1000.0 * *due / BIN_MS - 1e-9).ceil() - 1.0);
            let left = held(&masses, middle.saturating_sub(AROUND), middle + AROUND + 1);
            if left < FALLEN {
                out.push(Event {
                    kind: BEAT,
                    cancelled: true,
                    strength: left,
                    ahead: *due,
                });
            }
            left >= FALLEN
        });
        if out.len() > before {
            // A step takes this frame's time off it.
            let kept = self
                .announced
                .iter()
                .map(|due| due + pause)
                .fold(f64::NEG_INFINITY, f64::max);
            self.quiet[BEAT] = if self.announced.is_empty() { 0.0 } else { kept } + dt;
        }
    }
}

/// A number of bins, of what may be no number; some can be added to the most.
fn bins(count: f64) -> usize {
    // A cast saturates: what is negative or no number is 0.
    (count as usize).min(usize::MAX / 2)
}

/// What bins `from..to` hold together; bins that are not there hold nothing.
fn held(masses: &[f64], from: usize, to: usize) -> f64 {
    let to = to.min(masses.len());
    masses
        .get(from..to)
        .unwrap_or_default()
        .iter()
        .fold(0.0, |sum, mass| sum + mass)
}

/// The probability of each bin, of its hazards; whatever is no probability counts as 0 or 1.
fn bin_chances(row: &[f64]) -> Vec<f64> {
    let mut survival = 1.0;
    row.iter()
        .map(|&hazard| {
            let mass = survival * unit(hazard);
            survival -= mass;
            mass
        })
        .collect()
}

/// The middle, in bins, of the five neighbours from `first` on that hold the most together; of several that hold
/// alike, their middle.
fn likeliest(masses: &[f64], first: usize) -> f64 {
    let around = |b: usize| held(masses, b.saturating_sub(BESIDE).max(first), b + BESIDE + 1);
    let chances: Vec<f64> = (first..masses.len()).map(around).collect();
    let most = chances.iter().copied().fold(0.0, f64::max);
    let mut alike = (0..chances.len()).filter(|&b| chances[b] >= most - 1e-9);
    let Some(nearest) = alike.next() else {
        return first as f64 + 0.5;
    };
    let farthest = alike.next_back().unwrap_or(nearest);
    first as f64 + 0.5 * (nearest + farthest + 1) as f64
}

/// Whether the gate lets out what has waited for `waited` frames: at `g > theta (1 - 0.5 n / most)`, or n >= most.
fn opens(theta: f64, most: u32, waited: u32, gate: f64) -> bool {
    gate > theta * (1.0 - 0.5 * f64::from(waited) / f64::from(most)) || waited >= most
}
