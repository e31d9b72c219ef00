//! When events are announced: two rules over the model's hazards and its commitment gate.

use crate::EVENT_COUNT;
use crate::vectors::{BIN_MS, unit};

const BEAT: usize = 0;
/// Bins that an announced beat covers: 100 ms.
const BEAT_BINS: usize = 5;
/// Number of window positions searched for a beat.
const SEARCH_BINS: usize = 8;
/// Maximum time that an event may wait for the gate, in milliseconds. Chosen together with the threshold, as
/// are the next three.
const MAX_WAIT_MS: f64 = 100.0;
/// Number of bins at the end of the reach in which an event must fall.
const WINDOW_BINS: usize = 7;
/// Minimum chance to announce an event that may also come sooner than the window, or a beat before its last
/// moment where the frame asks for a longer lead.
const MIN_EARLY_CHANCE: f64 = 0.6;
/// Neighbours on each side that count towards a bin.
const NEIGHBOURS: usize = 2;
/// A beat is cancelled when its remaining chance falls below this. Chosen on the validation subjects
/// (docs/latency.md), as are the next two.
const MIN_REMAINING_CHANCE: f64 = 0.15;
/// Bins on each side of the announced moment that count towards the remaining chance.
const CANCEL_BINS: usize = 3;
/// Later than this before its moment, in seconds, a beat is no longer cancelled.
const MIN_CANCEL_S: f64 = 0.06;

/// An announced or cancelled event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Event {
    /// Event kind, in vocabulary order.
    pub kind: usize,
    /// Whether this cancels an earlier announcement.
    pub cancelled: bool,
    /// Probability of the event, 0..1.
    pub strength: f64,
    /// Seconds until the event.
    pub ahead: f64,
}

impl Event {
    /// The cancellation of an announced event.
    pub(crate) fn cancel(kind: usize, strength: f64, ahead: f64) -> Self {
        Self {
            kind,
            cancelled: true,
            strength,
            ahead,
        }
    }
}

/// Options of the second rule: beats are announced at the last moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LastMoment {
    /// Minimum lead of an announced beat, whatever lead the frame asks for.
    pub lead_ms: f64,
    /// Chance from which a beat is announced without waiting for its last moment.
    pub sure: f64,
}

/// Turns hazards and the commitment gate into events, each announced once. The rules are documented in
/// `pyanticip.controls.EventTrigger` and `LastMoment`.
#[derive(Debug, Clone)]
pub struct Trigger {
    thresholds: [f64; EVENT_COUNT],
    refractory_s: [f64; EVENT_COUNT],
    theta: f64,
    max_wait: u32,
    reach_ms: f64,
    last_moment: Option<LastMoment>,
    // Frames that each event has waited for the gate; None if it is not pending.
    waited: [Option<u32>; EVENT_COUNT],
    // Seconds until each kind may be announced again.
    blocked_s: [f64; EVENT_COUNT],
    // Seconds until each announced beat, negative once it has passed and its refractory time runs.
    announced: Vec<f64>,
}

impl Trigger {
    /// Thresholds and refractory seconds per event kind; gate threshold (`theta`, 0..1) and maximum wait in
    /// frames; reach.
    #[must_use]
    pub fn new(
        thresholds: [f64; EVENT_COUNT],
        refractory_s: [f64; EVENT_COUNT],
        (theta, max_wait): (f64, u32),
        reach_ms: f64,
        last_moment: Option<LastMoment>,
    ) -> Self {
        Self {
            thresholds,
            refractory_s,
            theta,
            max_wait: max_wait.max(1),
            reach_ms,
            last_moment,
            waited: [None; EVENT_COUNT],
            blocked_s: [0.0; EVENT_COUNT],
            announced: Vec::new(),
        }
    }

    /// Clears pending and announced events.
    pub fn reset(&mut self) {
        self.waited = [None; EVENT_COUNT];
        self.blocked_s = [0.0; EVENT_COUNT];
        self.announced.clear();
    }

    /// Advances time by `dt` seconds without a frame.
    pub fn advance(&mut self, dt: f64) {
        let refractory_s = self.refractory_s[BEAT];
        self.announced.retain_mut(|due| {
            *due -= dt;
            *due > -refractory_s
        });
        self.blocked_s
            .iter_mut()
            .for_each(|blocked_s| *blocked_s = (*blocked_s - dt).max(0.0));
    }

    /// The events of a frame, `dt` seconds after the last; cancellations come first.
    ///
    /// `hazards[kind][bin]` is the probability that the event falls into the bin if it has not come before
    /// it.
    pub fn step(&mut self, hazards: [&[f64]; EVENT_COUNT], gate: f64, lead_ms: f64, dt: f64) -> Vec<Event> {
        let mut out = Vec::new();
        if !self.announced.is_empty() {
            self.cancel_beats(hazards[BEAT], dt, &mut out);
        }
        for (kind, row) in hazards.into_iter().enumerate() {
            self.blocked_s[kind] = (self.blocked_s[kind] - dt).max(0.0);
            let announced = match self.last_moment {
                Some(rule) if kind == BEAT => self.beat_at_last_moment(rule, row, gate, lead_ms),
                _ => self.event_in_reach(kind, row, gate, lead_ms),
            };
            let Some((chance, ahead)) = announced else {
                continue;
            };
            self.waited[kind] = None;
            self.blocked_s[kind] = ahead + self.refractory_s[kind];
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

    /// Chance and seconds ahead of an event announced in this frame by the first rule.
    fn event_in_reach(&mut self, kind: usize, row: &[f64], gate: f64, lead_ms: f64) -> Option<(f64, f64)> {
        let reach_ms = if lead_ms > 0.0 {
            (lead_ms + MAX_WAIT_MS).max(self.reach_ms)
        } else {
            self.reach_ms
        };
        let last = bins((reach_ms / BIN_MS).ceil()).max(1);
        let first = last.saturating_sub(WINDOW_BINS);
        let masses = bin_chances(&row[..row.len().min(last + NEIGHBOURS)]);
        let (mut threshold, mut begin) = (self.thresholds[kind], first);
        let mut chance = mass_between(&masses, first, last);
        if chance < threshold {
            begin = bins((lead_ms / BIN_MS).round_ties_even()).min(last - 1);
            threshold = threshold.max(MIN_EARLY_CHANCE);
            chance = mass_between(&masses, begin, last);
        }
        if self.blocked_s[kind] > 0.0 || chance < threshold {
            self.waited[kind] = None;
            return None;
        }
        let waited = self.count_wait(kind);
        gate_opens(self.theta, self.max_wait, waited, gate).then(|| {
            (
                chance,
                likeliest_bin(&masses, begin.saturating_sub(NEIGHBOURS)) * (BIN_MS / 1000.0),
            )
        })
    }

    fn count_wait(&mut self, kind: usize) -> u32 {
        let waited = self.waited[kind].map_or(0, |n| n.saturating_add(1));
        self.waited[kind] = Some(waited);
        waited
    }

    /// Chance and seconds ahead of a beat announced in this frame by the second rule.
    fn beat_at_last_moment(
        &mut self,
        rule: LastMoment,
        row: &[f64],
        gate: f64,
        lead_ms: f64,
    ) -> Option<(f64, f64)> {
        let masses = bin_chances(row);
        let last = masses.len().saturating_sub(BEAT_BINS);
        let ahead = |ms: f64| bins((ms / BIN_MS - 1e-9).ceil()).min(last);
        let (nearest, requested) = (ahead(rule.lead_ms), ahead(lead_ms.max(rule.lead_ms)));
        let places = nearest..=(requested + SEARCH_BINS - 1).min(last);
        let chances: Vec<f64> = places.map(|b| mass_between(&masses, b, b + BEAT_BINS)).collect();
        let most = chances.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let best = chances.iter().position(|&chance| chance > most - 1e-9)?;
        let chance = chances[best];
        let (is_blocked, is_sure) = (self.blocked_s[BEAT] > 0.0, chance >= rule.sure);
        let mut is_early = false;
        if is_sure && !is_blocked {
            let waited = self.count_wait(BEAT);
            is_early = gate_opens(self.theta, self.max_wait, waited, gate);
        } else {
            self.waited[BEAT] = None;
        }
        let place = nearest + best;
        // Better late than never: an event not likely enough that far ahead is tried again when it is due.
        let threshold = if best == 0 {
            self.thresholds[BEAT]
        } else {
            self.thresholds[BEAT].max(MIN_EARLY_CHANCE)
        };
        if is_blocked || !(is_early || (place <= requested && chance >= threshold)) {
            return None;
        }
        let first = place.saturating_sub(NEIGHBOURS);
        let near = &masses[first..(place + BEAT_BINS + NEIGHBOURS).min(masses.len())];
        // An event happens at a frame of the grid, which is the end of its bin.
        let ends = near.iter().zip(first + 1..).map(|(mass, end)| mass * end as f64);
        let due = ends.fold(0.0, |sum, part| sum + part) / mass_between(near, 0, near.len());
        Some((chance, due.max(nearest as f64) * BIN_MS / 1000.0))
    }

    /// Cancels announced beats whose remaining chance has become too low.
    fn cancel_beats(&mut self, row: &[f64], dt: f64, out: &mut Vec<Event>) {
        let refractory_s = self.refractory_s[BEAT];
        let masses = bin_chances(row);
        let before = out.len();
        self.announced.retain_mut(|due| {
            *due -= dt;
            if *due <= -refractory_s || *due < MIN_CANCEL_S {
                return *due > -refractory_s;
            }
            let middle = bins((1000.0 * *due / BIN_MS - 1e-9).ceil() - 1.0);
            let remaining = mass_between(
                &masses,
                middle.saturating_sub(CANCEL_BINS),
                middle + CANCEL_BINS + 1,
            );
            if remaining < MIN_REMAINING_CHANCE {
                out.push(Event::cancel(BEAT, remaining, *due));
            }
            remaining >= MIN_REMAINING_CHANCE
        });
        if out.len() > before {
            // The caller subtracts this frame's time again.
            let next_s = self
                .announced
                .iter()
                .map(|due| due + refractory_s)
                .fold(f64::NEG_INFINITY, f64::max);
            self.blocked_s[BEAT] = if self.announced.is_empty() { 0.0 } else { next_s } + dt;
        }
    }
}

/// A number of bins as an integer, small enough that adding to it cannot overflow.
fn bins(count: f64) -> usize {
    // The cast saturates: negative numbers and NaN become 0.
    (count as usize).min(usize::MAX / 2)
}

/// Total probability of bins `from..to`; bins beyond the end count as 0.
fn mass_between(masses: &[f64], from: usize, to: usize) -> f64 {
    let to = to.min(masses.len());
    masses
        .get(from..to)
        .unwrap_or_default()
        .iter()
        .fold(0.0, |sum, mass| sum + mass)
}

/// The probability of each bin from its hazards, which are clamped to 0..1 (NaN to 0).
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

/// Centre, in bins, of the five neighbouring bins from `first` on with the largest total probability; of the
/// range between the first and the last such centre where several are equal.
fn likeliest_bin(masses: &[f64], first: usize) -> f64 {
    let total_around = |b: usize| {
        mass_between(
            masses,
            b.saturating_sub(NEIGHBOURS).max(first),
            b + NEIGHBOURS + 1,
        )
    };
    let chances: Vec<f64> = (first..masses.len()).map(total_around).collect();
    let most = chances.iter().copied().fold(0.0, f64::max);
    let mut equal = (0..chances.len()).filter(|&b| chances[b] >= most - 1e-9);
    let Some(nearest) = equal.next() else {
        return first as f64 + 0.5;
    };
    let farthest = equal.next_back().unwrap_or(nearest);
    first as f64 + 0.5 * (nearest + farthest + 1) as f64
}

/// Whether the gate is open after `waited` frames: `gate > theta (1 - 0.5 waited / max_wait)` or `waited >=
/// max_wait`.
fn gate_opens(theta: f64, max_wait: u32, waited: u32, gate: f64) -> bool {
    gate > theta * (1.0 - 0.5 * f64::from(waited) / f64::from(max_wait)) || waited >= max_wait
}
