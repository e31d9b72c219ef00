//! Cues: moments of the rehearsal that are announced a chosen time before the performer comes to them.

use crate::{MemoryError, Place};

/// A cue is said where the performer has been so surely before it for so many frames, and moved on without a jump,
/// seconds.
const TRUST: f64 = 0.6;
const STEADY: u32 = 4;
const JUMP: f64 = 0.2;
/// Places in several takes are the same moment for a cue that they are equally far before, within so many seconds.
const SAME: f64 = 0.5;
/// Who moves more slowly than this share of the rehearsal's tempo is about to stand still: nothing can be foretold.
const SLOWEST: f64 = 0.3;
/// A cue found to be due is said as long as it is no later than this, seconds.
const LATE: f64 = 0.1;
/// A cue is armed again once the performer was so far before it, and so far before where it was said, seconds of the
/// rehearsal, for so many frames.
const BEFORE: f64 = 0.5;
const BACK: f64 = 0.3;
const FRAMES: u32 = 15;
/// A jump back by more than this, seconds of the rehearsal, trusted by so much, begins another pass at once.
const REPEAT: f64 = 0.5;
const SURE: f64 = 0.7;
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
    /// 0 to 1: the belief in the half second around, whichever of the takes that show the same it is in.
    pub trust: f64,
}

/// How a cue was said.
#[derive(Debug, Clone, Copy)]
struct Announcement {
    /// How far the performer was before it, seconds of the rehearsal.
    away: f64,
    /// Frames for which the performer has been farther before it.
    frames: u32,
}

/// A cue, and the performer's way to it.
#[derive(Debug, Clone)]
struct Watched {
    /// How long before it is said.
    ahead: f64,
    /// Where it is: takes, and seconds in them.
    spots: Vec<(usize, f64)>,
    /// How it was said; `None`: it is armed.
    announced: Option<Announcement>,
    /// Frames for which the place before it has been trusted.
    steady: u32,
    /// How far before it that was the last time; and before a gap that nobody has been followed since.
    trusted: Option<f64>,
    interrupted: Option<f64>,
}

/// Says each cue once in every pass through it, at the first frame from which it is no more than `ahead` away.
///
/// Until it is said, a stop, a jump or another tempo moves or cancels it; what was said cannot be called back. A cue
/// that a jump leads over is not said. It can be said again after the performer went back before it: a jump back of
/// half a second arms it at once where the place is sure, other ways back once they led far before it. Nothing is said
/// until the performer was followed for a tenth of a second.
#[derive(Debug, Clone)]
pub struct Cues {
    cues: Vec<Watched>,
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
    /// All armed.
    ///
    /// # Errors
    /// Times that are not finite or out of their range, more than 10,000 cues.
    pub fn new(cues: Vec<Cue>) -> Result<Self, MemoryError> {
        if cues.len() > MOST {
            return Err(wrong("cues", "at most 10000", &cues.len()));
        }
        if let Some(cue) = cues.iter().find(|cue| !(0.0..=FURTHEST).contains(&cue.ahead)) {
            return Err(wrong("ahead", "0 to 2 seconds", &cue.ahead));
        }
        let armed = |cue: &Cue| Watched {
            ahead: cue.ahead,
            spots: Vec::new(),
            announced: None,
            steady: 0,
            trusted: None,
            interrupted: None,
        };
        let mut made = Self {
            cues: cues.iter().map(armed).collect(),
            last: Vec::new(),
        };
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
        let cue = self
            .cues
            .get_mut(cue)
            .ok_or_else(|| wrong("also", "the index of a cue", &cue))?;
        if !(0.0..f64::INFINITY).contains(&seconds) {
            return Err(wrong("seconds", "seconds from the take's begin on", &seconds));
        }
        cue.spots.push((take, seconds));
        Ok(())
    }

    /// The performer is at the cue of this number now: it is said in the next pass.
    ///
    /// # Errors
    /// No such cue.
    pub fn passed(&mut self, cue: usize) -> Result<(), MemoryError> {
        let cue = self
            .cues
            .get_mut(cue)
            .ok_or_else(|| wrong("passed", "the index of a cue", &cue))?;
        cue.announced = Some(Announcement { away: 0.0, frames: 0 });
        Ok(())
    }

    /// Takes over from other cues in mid-pass; `same` are, cue by cue, the numbers of those that were there.
    pub fn take_over(&mut self, before: &Self, same: &[Option<usize>]) {
        self.last.clone_from(&before.last);
        for (cue, number) in self.cues.iter_mut().zip(same) {
            if let Some(was) = number.and_then(|number| before.cues.get(number)) {
                cue.announced = cue.announced.or(was.announced);
                (cue.steady, cue.trusted, cue.interrupted) = (was.steady, was.trusted, was.interrupted);
            }
        }
    }

    /// A new run: all are armed.
    pub fn reset(&mut self) {
        self.last.clear();
        for cue in &mut self.cues {
            (cue.announced, cue.steady, cue.trusted, cue.interrupted) = (None, 0, None, None);
        }
    }

    /// Frames are missing. Where the performer is found farther before a cue that is still to come, it is armed;
    /// else the pass goes on.
    pub fn resume(&mut self) {
        self.last.clear();
        for cue in &mut self.cues {
            cue.interrupted = cue.interrupted.or(cue.trusted);
            cue.steady = 0;
        }
    }

    /// Takes where the performer is in a frame of the 50 Hz grid, as [`crate::Follower::places`] gives it: the place
    /// that is believed in most first, then the best of every other take. The cues to be said now, soonest first.
    pub fn push(&mut self, places: &[Place]) -> Vec<Due> {
        let goes_on = places.first().is_some_and(|now| {
            let near = |last: &Place| last.take == now.take && (now.seconds - last.seconds).abs() < JUMP;
            self.last.iter().any(near)
        });
        self.last.clear();
        self.last.extend_from_slice(places);
        let announced = self.cues.iter_mut().enumerate().filter_map(|(number, cue)| {
            let (seconds, trust) = cue.push(places, goes_on)?;
            Some(Due {
                cue: number,
                seconds,
                trust,
            })
        });
        let mut due: Vec<Due> = announced.collect();
        due.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        due
    }
}

impl Watched {
    /// Seconds until it is due and how sure that is, where it is to be said.
    fn push(&mut self, places: &[Place], goes_on: bool) -> Option<(f64, f64)> {
        let way = self.way(places).filter(|(_, trust)| *trust >= TRUST);
        self.steady = if goes_on && way.is_some() {
            self.steady + 1
        } else {
            0
        };
        let (away, trust) = way.filter(|_| self.steady >= STEADY)?;
        let repeats = trust >= SURE && self.trusted.is_some_and(|was| away > was + REPEAT);
        let returns = self.interrupted.take().is_some_and(|was| away > was + BACK);
        self.trusted = Some(away);
        if (repeats || returns) && away >= 0.0 {
            self.announced = None;
        }
        if let Some(Announcement { away: was, frames }) = &mut self.announced {
            *frames = if away > BEFORE.max(*was + BACK) {
                *frames + 1
            } else {
                0
            };
            if *frames < FRAMES {
                return None;
            }
            self.announced = None;
        }
        let tempo = places[0].tempo;
        let seconds = away / tempo;
        if tempo < SLOWEST || !(-LATE..=self.ahead).contains(&seconds) {
            return None;
        }
        self.announced = Some(Announcement { away, frames: 0 });
        Some((seconds.max(0.0), trust))
    }

    /// How far before it the performer is, seconds of the rehearsal, and the belief in that: where several takes show
    /// the same, each has a part of it.
    fn way(&self, places: &[Place]) -> Option<(f64, f64)> {
        let away = |place: &Place| {
            let mut spots = self.spots.iter().filter(|(take, _)| *take == place.take);
            spots.next().map(|(_, at)| at - place.seconds)
        };
        let first = away(places.first()?)?;
        let same = |place: &&Place| away(place).is_some_and(|away| (away - first).abs() < SAME);
        let trust: f64 = places.iter().filter(same).map(|place| place.trust).sum();
        Some((first, trust.min(1.0)))
    }
}
