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
/// A cue is armed again once the performer was so far before it, seconds of the rehearsal, for so many frames.
const BEFORE: f64 = 0.5;
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

/// Says each cue once in every pass through it, at the first frame from which it is no more than `ahead` away.
///
/// Until it is said, a stop, a jump or another tempo moves or cancels it; what was said cannot be called back. A cue
/// that a jump leads over is not said. It can be said again after the performer went back before it. Nothing is said
/// until the performer was followed for a tenth of a second.
#[derive(Debug, Clone)]
pub struct Cues {
    cues: Vec<Cue>,
    /// For every cue that was said, frames for which the performer has been before it.
    said: Vec<Option<u32>>,
    last: Option<Place>,
    /// Frames for which the place has been trusted.
    steady: u32,
}

impl Cues {
    /// All armed.
    ///
    /// # Errors
    /// Times that are not finite or out of their range, more than 10,000 cues.
    pub fn new(cues: Vec<Cue>) -> Result<Self, MemoryError> {
        if cues.len() > MOST {
            return Err(MemoryError::Option {
                option: "cues",
                expected: "at most 10000",
                given: cues.len().to_string(),
            });
        }
        for cue in &cues {
            let wrong = |option, expected, given: f64| MemoryError::Option {
                option,
                expected,
                given: given.to_string(),
            };
            if !(0.0..f64::INFINITY).contains(&cue.seconds) {
                return Err(wrong("seconds", "seconds from the take's begin on", cue.seconds));
            }
            if !(0.0..=FURTHEST).contains(&cue.ahead) {
                return Err(wrong("ahead", "0 to 2 seconds", cue.ahead));
            }
        }
        Ok(Self {
            said: vec![None; cues.len()],
            cues,
            last: None,
            steady: 0,
        })
    }

    /// A new run: all are armed.
    pub fn reset(&mut self) {
        self.said.fill(None);
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
        for (number, (cue, said)) in self.cues.iter().zip(&mut self.said).enumerate() {
            if cue.take != place.take {
                continue;
            }
            let away = cue.seconds - place.seconds;
            if let Some(frames) = said {
                *frames = if away > BEFORE { *frames + 1 } else { 0 };
                if *frames < FRAMES {
                    continue;
                }
                *said = None;
            }
            let seconds = away / place.tempo;
            if place.tempo >= SLOWEST && (-LATE..=cue.ahead).contains(&seconds) {
                *said = Some(0);
                due.push(Due {
                    cue: number,
                    seconds: seconds.max(0.0),
                });
            }
        }
        due.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        due
    }
}
