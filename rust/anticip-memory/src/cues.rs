//! Cues: moments of the rehearsal that are announced a chosen time before the performer comes to them.

use crate::{MemoryError, Place};

/// Cues are said on a place that has been trusted so much for so many frames, and moved on without a jump, seconds.
const TRUST: f64 = 0.6;
const STEADY: u32 = 4;
const JUMP: f64 = 0.2;
/// Who moves more slowly than this share of the rehearsal's tempo is about to stand still: nothing can be foretold.
const SLOWEST: f64 = 0.3;
/// A cue found to be due is said as long as it is no later than this, seconds.
const LATE: f64 = 0.1;
/// A cue is armed again once the performer was so far before it, and so far before where it was said, seconds of the
/// rehearsal, for so many frames.
const BEFORE: f64 = 0.5;
const BACK: f64 = 0.3;
const FRAMES: u32 = 15;
/// What may be asked for, seconds.
const FURTHEST: f64 = 2.0;
const MOST: usize = 10_000;

/// A moment of the rehearsal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cue {
    /// Index of the take.
    pub take: usize,
    /// Seconds from the take's first frame.
    pub seconds: f64,
    /// How long before it is said, 0 to 2 seconds.
    pub ahead: f64,
}

/// A cue that was said.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Due {
    /// Index of the cue.
    pub cue: usize,
    /// Seconds from the frame at which it was said, 0 to its `ahead`.
    pub seconds: f64,
}

/// How a cue was said.
#[derive(Debug, Clone, Copy)]
struct Said {
    /// How far the performer was before it, seconds of the rehearsal.
    away: f64,
    /// Frames for which the performer has been farther before it.
    frames: u32,
}

/// Says each cue once in every pass through it, at the first frame from which it is no more than `ahead` away.
///
/// Until it is said, a stop, a jump or another tempo moves or cancels it; what was said cannot be called back. A cue
/// that a jump leads over is not said. It can be said again after the performer went back before it. Nothing is said
/// until the performer was followed for a tenth of a second.
#[derive(Debug, Clone)]
pub struct Cues {
    /// How long before each is said.
    ahead: Vec<f64>,
    /// Where they are: cue, take, seconds.
    spots: Vec<(usize, usize, f64)>,
    /// How each was said; `None`: it is armed.
    said: Vec<Option<Said>>,
    last: Option<Place>,
    /// Frames for which the place has been trusted.
    steady: u32,
    /// Where that was the last time; and where it was before a gap that nobody has been followed since.
    trusted: Option<Place>,
    interrupted: Option<Place>,
}

fn wrong(option: &'static str, expected: &'static str, given: &dyn ToString) -> MemoryError {
    MemoryError::Option {
        option,
        expected,
        given: given.to_string(),
    }
}

impl Cues {
    /// All armed.
    ///
    /// # Errors
    /// Times that are not finite or out of their range, more than 10,000 cues.
    pub fn new(cues: Vec<Cue>) -> Result<Self, MemoryError> {
        if cues.len() > MOST {
            return Err(wrong("cues", "at most 10000", &cues.len()));
        }
        let mut made = Self {
            ahead: cues.iter().map(|cue| cue.ahead).collect(),
            spots: Vec::new(),
            said: vec![None; cues.len()],
            last: None,
            steady: 0,
            trusted: None,
            interrupted: None,
        };
        if let Some(ahead) = made.ahead.iter().find(|ahead| !(0.0..=FURTHEST).contains(*ahead)) {
            return Err(wrong("ahead", "0 to 2 seconds", ahead));
        }
        for (number, cue) in cues.iter().enumerate() {
            made.also(number, cue.take, cue.seconds)?;
        }
        Ok(made)
    }

    /// The cue of this number is at `seconds` of another take as well, which shows the same: said there, it is not
    /// said again in the same pass through any.
    ///
    /// # Errors
    /// No such cue, a time that is not finite or before the take.
    pub fn also(&mut self, cue: usize, take: usize, seconds: f64) -> Result<(), MemoryError> {
        if cue >= self.ahead.len() {
            return Err(wrong("also", "the index of a cue", &cue));
        }
        if !(0.0..f64::INFINITY).contains(&seconds) {
            return Err(wrong("seconds", "seconds from the take's begin on", &seconds));
        }
        self.spots.push((cue, take, seconds));
        Ok(())
    }

    /// The performer is at the cue of this number now: it is said in the next pass.
    ///
    /// # Errors
    /// No such cue.
    pub fn passed(&mut self, cue: usize) -> Result<(), MemoryError> {
        let said = self
            .said
            .get_mut(cue)
            .ok_or_else(|| wrong("passed", "the index of a cue", &cue))?;
        *said = Some(Said { away: 0.0, frames: 0 });
        Ok(())
    }

    /// Takes over from other cues in mid-pass; `same` are, cue by cue, the numbers of those that were there.
    pub fn take_over(&mut self, before: &Self, same: &[Option<usize>]) {
        (self.last, self.steady) = (before.last, before.steady);
        (self.trusted, self.interrupted) = (before.trusted, before.interrupted);
        for (said, number) in self.said.iter_mut().zip(same) {
            *said = said.or_else(|| before.said.get((*number)?).copied().flatten());
        }
    }

    /// A new run: all are armed.
    pub fn reset(&mut self) {
        self.said.fill(None);
        self.last = None;
        self.steady = 0;
        (self.trusted, self.interrupted) = (None, None);
    }

    /// Frames are missing. Where the performer is found farther back in the same take, all that comes is armed; else
    /// the pass goes on.
    pub fn resume(&mut self) {
        self.interrupted = self.interrupted.or(self.trusted);
        self.last = None;
        self.steady = 0;
    }

    /// Takes where the performer is in a frame of the 50 Hz grid; the cues to be said now, soonest first.
    pub fn push(&mut self, place: Option<&Place>) -> Vec<Due> {
        let mut due = Vec::new();
        let place = place.filter(|place| place.trust >= TRUST);
        let last = std::mem::replace(&mut self.last, place.copied());
        let goes_on = place.zip(last).is_some_and(|(place, last)| {
            place.take == last.take && (place.seconds - last.seconds).abs() < JUMP
        });
        self.steady = if goes_on { self.steady + 1 } else { 0 };
        let Some(place) = place.filter(|_| self.steady >= STEADY) else {
            return due;
        };
        self.trusted = Some(*place);
        let gap = self.interrupted.take();
        let anew = gap.is_some_and(|was| was.take == place.take && place.seconds < was.seconds - BACK);
        for &(cue, take, at) in &self.spots {
            if take != place.take {
                continue;
            }
            if anew && at >= place.seconds {
                self.said[cue] = None;
            }
            let (said, ahead) = (&mut self.said[cue], self.ahead[cue]);
            let away = at - place.seconds;
            if let Some(Said { away: was, frames }) = said {
                *frames = if away > BEFORE.max(*was + BACK) {
                    *frames + 1
                } else {
                    0
                };
                if *frames < FRAMES {
                    continue;
                }
                *said = None;
            }
            let seconds = away / place.tempo;
            if place.tempo >= SLOWEST && (-LATE..=ahead).contains(&seconds) {
                *said = Some(Said { away, frames: 0 });
                due.push(Due {
                    cue,
                    seconds: seconds.max(0.0),
                });
            }
        }
        due.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        due
    }
}
