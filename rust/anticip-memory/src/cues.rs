//! Cues: moments of the rehearsal that are announced a chosen time before the performer reaches them.

use crate::{MemoryError, Place};

/// Minimum trust in the performer's place for a cue to fire.
const MIN_TRUST: f64 = 0.6;
/// Consecutive frames for which the place before a cue must have been trusted, without a jump.
const MIN_TRUSTED_FRAMES: u32 = 4;
/// A place that moves by this much within a frame has jumped, seconds of the rehearsal.
const JUMP: f64 = 0.2;
/// Places in several takes are the same moment for a cue if their distances to it differ by less than this, seconds.
const SAME_MOMENT: f64 = 0.5;
/// Below this share of the rehearsal's tempo the performer is about to stand still, and nothing can be foretold.
const MIN_TEMPO: f64 = 0.3;
/// A cue still fires if it is found to be overdue by no more than this, seconds.
const MAX_LATENESS: f64 = 0.1;
/// A cue that fired is armed again once the performer has been at least `REARM_DISTANCE` before it, and `REARM_MARGIN`
/// before where it fired (seconds of the rehearsal), for `REARM_FRAMES` frames.
const REARM_DISTANCE: f64 = 0.5;
const REARM_MARGIN: f64 = 0.3;
const REARM_FRAMES: u32 = 15;
/// A jump back by more than this (seconds of the rehearsal) arms cues at once, if the place is trusted this much.
const REPEAT_JUMP: f64 = 0.5;
const REPEAT_TRUST: f64 = 0.7;
/// Largest `ahead`, seconds.
const MAX_AHEAD: f64 = 2.0;
const MAX_CUES: usize = 10_000;

/// A moment of the rehearsal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cue {
    /// Index of the take.
    pub take: usize,
    /// Seconds from the take's first frame.
    pub seconds: f64,
    /// How long before it is reached it fires, 0 to 2 seconds.
    pub ahead: f64,
}

/// A cue that fires.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Due {
    /// Index of the cue.
    pub cue: usize,
    /// Seconds from this frame until the performer reaches it, 0 to its `ahead`.
    pub seconds: f64,
    /// 0 to 1: belief in the half second around this place, summed over the takes that show the same moment.
    pub trust: f64,
}

/// A cue that fired and is not armed again yet.
#[derive(Debug, Clone, Copy)]
struct Fired {
    /// Distance to the cue when it fired, seconds of the rehearsal.
    distance: f64,
    /// Consecutive frames for which the performer has been far enough before it to arm it again.
    rearm_frames: u32,
}

/// State of one cue.
#[derive(Debug, Clone)]
struct CueState {
    /// How long before it is reached it fires, seconds.
    ahead: f64,
    /// Its moments: takes, and seconds in them.
    moments: Vec<(usize, f64)>,
    /// `None`: armed.
    fired: Option<Fired>,
    /// Consecutive frames with a trusted place.
    trusted_frames: u32,
    /// Distance to the cue at the last trusted place, seconds of the rehearsal.
    last_distance: Option<f64>,
    /// The same as it was before a gap after which no place has been trusted yet.
    distance_before_gap: Option<f64>,
}

/// Fires each cue once in every pass, at the first frame from which it is no more than `ahead` away.
///
/// Until it fires, a stop, a jump or a change of tempo moves or cancels it; afterwards it cannot be called back. A cue
/// that a jump skips does not fire. A cue is armed again after the performer went back before it: at once after a
/// trusted jump back of more than half a second, otherwise after some time well before it. No cue fires until the
/// performer has been followed for a tenth of a second.
#[derive(Debug, Clone)]
pub struct Cues {
    cues: Vec<CueState>,
    /// Places of the frame before.
    last: Vec<Place>,
}

fn wrong(option: &'static str, expected: &'static str, given: &dyn ToString) -> MemoryError {
    MemoryError::Option {
        option,
        expected,
        given: given.to_string(),
    }
}

impl Cues {
    /// Creates the cues, all armed.
    ///
    /// # Errors
    /// A time that is not finite or out of range; more than 10,000 cues.
    pub fn new(cues: Vec<Cue>) -> Result<Self, MemoryError> {
        if cues.len() > MAX_CUES {
            return Err(wrong("cues", "at most 10000", &cues.len()));
        }
        if let Some(cue) = cues.iter().find(|cue| !(0.0..=MAX_AHEAD).contains(&cue.ahead)) {
            return Err(wrong("ahead", "0 to 2 seconds", &cue.ahead));
        }
        let armed = |cue: &Cue| CueState {
            ahead: cue.ahead,
            moments: Vec::new(),
            fired: None,
            trusted_frames: 0,
            last_distance: None,
            distance_before_gap: None,
        };
        let mut all = Self {
            cues: cues.iter().map(armed).collect(),
            last: Vec::new(),
        };
        for (number, cue) in cues.iter().enumerate() {
            all.add_alternative(number, cue.take, cue.seconds)?;
        }
        Ok(all)
    }

    /// Adds a moment to cue number `cue`: another take shows the same at `seconds`. The cue fires once in a pass
    /// through any of its takes.
    ///
    /// # Errors
    /// No such cue; a time that is not finite or is negative.
    pub fn add_alternative(&mut self, cue: usize, take: usize, seconds: f64) -> Result<(), MemoryError> {
        let cue = self
            .cues
            .get_mut(cue)
            .ok_or_else(|| wrong("also", "the index of a cue", &cue))?;
        if !(0.0..f64::INFINITY).contains(&seconds) {
            return Err(wrong("seconds", "seconds since the take's start", &seconds));
        }
        cue.moments.push((take, seconds));
        Ok(())
    }

    /// Marks cue number `cue` as fired, since the performer is there now: it fires in the next pass.
    ///
    /// # Errors
    /// No such cue.
    pub fn passed(&mut self, cue: usize) -> Result<(), MemoryError> {
        let cue = self
            .cues
            .get_mut(cue)
            .ok_or_else(|| wrong("passed", "the index of a cue", &cue))?;
        cue.fired = Some(Fired {
            distance: 0.0,
            rearm_frames: 0,
        });
        Ok(())
    }

    /// Takes over the state of other cues in mid-pass; `same` has for each cue its number among them, if it was there.
    pub fn take_over(&mut self, before: &Self, same: &[Option<usize>]) {
        self.last.clone_from(&before.last);
        for (cue, number) in self.cues.iter_mut().zip(same) {
            if let Some(was) = number.and_then(|number| before.cues.get(number)) {
                cue.fired = cue.fired.or(was.fired);
                cue.trusted_frames = was.trusted_frames;
                (cue.last_distance, cue.distance_before_gap) = (was.last_distance, was.distance_before_gap);
            }
        }
    }

    /// Starts a new run, with all cues armed.
    pub fn reset(&mut self) {
        self.last.clear();
        for cue in &mut self.cues {
            (cue.fired, cue.trusted_frames) = (None, 0);
            (cue.last_distance, cue.distance_before_gap) = (None, None);
        }
    }

    /// Continues after missing frames. A cue is armed if the performer is then found farther before it than before the
    /// gap; otherwise the pass goes on.
    pub fn resume(&mut self) {
        self.last.clear();
        for cue in &mut self.cues {
            cue.distance_before_gap = cue.distance_before_gap.or(cue.last_distance);
            cue.trusted_frames = 0;
        }
    }

    /// Takes the performer's places in a frame of the 50 Hz grid, as [`crate::Follower::places`] returns them: the most
    /// trusted first, then the best of every other take. Returns the cues that fire now, soonest first.
    pub fn push(&mut self, places: &[Place]) -> Vec<Due> {
        let continues = places.first().is_some_and(|now| {
            let near = |last: &Place| last.take == now.take && (now.seconds - last.seconds).abs() < JUMP;
            self.last.iter().any(near)
        });
        self.last.clear();
        self.last.extend_from_slice(places);
        let firing = self.cues.iter_mut().enumerate().filter_map(|(number, cue)| {
            let (seconds, trust) = cue.push(places, continues)?;
            Some(Due {
                cue: number,
                seconds,
                trust,
            })
        });
        let mut due: Vec<Due> = firing.collect();
        due.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        due
    }
}

impl CueState {
    /// Seconds until the cue is reached, and the trust in that, if it fires now; `continues`: the place did not jump.
    fn push(&mut self, places: &[Place], continues: bool) -> Option<(f64, f64)> {
        let trusted = self.distance(places).filter(|(_, trust)| *trust >= MIN_TRUST);
        self.trusted_frames = if continues && trusted.is_some() {
            self.trusted_frames + 1
        } else {
            0
        };
        let (distance, trust) = trusted.filter(|_| self.trusted_frames >= MIN_TRUSTED_FRAMES)?;
        let farther_by = |before: Option<f64>, by: f64| before.is_some_and(|before| distance > before + by);
        let repeats = trust >= REPEAT_TRUST && farther_by(self.last_distance, REPEAT_JUMP);
        let returns = farther_by(self.distance_before_gap.take(), REARM_MARGIN);
        self.last_distance = Some(distance);
        if (repeats || returns) && distance >= 0.0 {
            self.fired = None;
        }
        if let Some(fired) = &mut self.fired {
            fired.rearm_frames = if distance > REARM_DISTANCE.max(fired.distance + REARM_MARGIN) {
                fired.rearm_frames + 1
            } else {
                0
            };
            if fired.rearm_frames < REARM_FRAMES {
                return None;
            }
            self.fired = None;
        }
        let tempo = places[0].tempo;
        let seconds = distance / tempo;
        if tempo < MIN_TEMPO || !(-MAX_LATENESS..=self.ahead).contains(&seconds) {
            return None;
        }
        self.fired = Some(Fired {
            distance,
            rearm_frames: 0,
        });
        Some((seconds.max(0.0), trust))
    }

    /// Distance from the performer to the cue (seconds of the rehearsal, negative behind it), and the trust in it,
    /// summed over the takes that show the same moment.
    fn distance(&self, places: &[Place]) -> Option<(f64, f64)> {
        let distance = |place: &Place| {
            let mut moments = self.moments.iter().filter(|(take, _)| *take == place.take);
            moments.next().map(|(_, seconds)| seconds - place.seconds)
        };
        let first = distance(places.first()?)?;
        let same = |place: &&Place| distance(place).is_some_and(|other| (other - first).abs() < SAME_MOMENT);
        let trust: f64 = places.iter().filter(same).map(|place| place.trust).sum();
        Some((first, trust.min(1.0)))
    }
}
