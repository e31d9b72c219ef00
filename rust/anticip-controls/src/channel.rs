//! One vector on its way out: smoothing, shaping, silence, and the performer's hand.

use crate::crossfade::Crossfade;
use crate::presence::{Presence, Silence};
use crate::shaping::Shaper;
use crate::shared::Shared;
use crate::smoothing::{Smoother, Smoothing};

/// What the performer's hand does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// What comes goes out.
    Playing,
    /// The values stand still.
    Frozen,
    /// To neutral, slowly.
    Stopped,
    /// To neutral, at once.
    Panic,
}

/// Seconds that each change of mode takes.
const RELEASE: f64 = 0.4;
const STOP: f64 = 1.0;
const PANIC: f64 = 0.05;
const FRAME: f64 = 0.02;

/// A vector of any length; `neutral` is where it goes when nobody is there.
///
/// Shapers come behind the smoothing, so that a gate stays sharp, and before silence and the hand, which go to
/// neutral whatever the shape.
#[derive(Debug, Clone)]
pub struct Channel {
    /// Smooths what comes in.
    pub smoother: Smoother,
    presence: Presence,
    shapers: Vec<(usize, Shared<Shaper>)>,
    neutral: Vec<f64>,
    hand: Crossfade,
    out: Vec<f64>,
    frozen: Vec<f64>,
    ticked: bool,
    mode: Mode,
}

impl Channel {
    /// At neutral; a setting and a value of `neutral` for each output.
    #[must_use]
    pub fn new(smoothing: Vec<Smoothing>, silence: Silence, neutral: &[f64]) -> Self {
        Self {
            smoother: Smoother::new(smoothing),
            presence: Presence::new(silence, neutral),
            shapers: Vec::new(),
            neutral: neutral.to_vec(),
            hand: Crossfade::new(RELEASE),
            out: neutral.to_vec(),
            frozen: neutral.to_vec(),
            ticked: false,
            mode: Mode::Playing,
        }
    }

    /// Shapes by these, each with its place, from the next value on.
    pub fn shape(&mut self, shapers: Vec<(usize, Shared<Shaper>)>) {
        self.shapers = shapers;
        self.shapers.retain(|(place, _)| *place < self.out.len());
    }

    /// The vector given last.
    #[must_use]
    pub fn out(&self) -> &[f64] {
        &self.out
    }

    /// What the hand does.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// What happens in silence.
    #[must_use]
    pub fn silence_settings(&self) -> Silence {
        self.presence.settings()
    }

    /// How long there was no frame.
    #[must_use]
    pub fn silent(&self) -> f64 {
        self.presence.silent()
    }

    /// Goes on from these values, as many as there are.
    pub fn begin(&mut self, values: &[f64]) {
        self.out.copy_from_slice(values);
        self.presence.begin(values);
        self.presence.restart();
    }

    /// Eases into the next frame from where the output stands.
    pub fn restart(&mut self) {
        self.presence.restart();
    }

    /// Eases from these values, which were heard last, into what comes, be it a frame or silence.
    pub fn resume(&mut self, heard: &[f64]) {
        self.out.copy_from_slice(heard);
        self.hand.start(heard);
    }

    /// Goes to another mode without a jump.
    pub fn set_mode(&mut self, mode: Mode) {
        self.hand.seconds = match mode {
            Mode::Stopped => STOP,
            Mode::Panic => PANIC,
            Mode::Playing | Mode::Frozen => RELEASE,
        };
        self.frozen.copy_from_slice(&self.out);
        self.mode = mode;
        self.hand.start(&self.out);
    }

    /// To neutral within so many seconds, whatever the mode.
    pub fn leave(&mut self, seconds: f64) {
        self.mode = Mode::Stopped;
        self.hand.seconds = seconds;
        self.hand.start(&self.out);
    }

    /// The vector of a frame, `dt` seconds of source time after the last; the goal is used up.
    pub fn play(&mut self, goal: &mut [f64], mut dt: f64) -> &[f64] {
        self.smoother.step(goal, dt);
        for (place, shaper) in &self.shapers {
            goal[*place] = shaper.with(|shaper| shaper.shape(goal[*place]));
        }
        self.presence.live(goal, dt);
        if self.ticked {
            // The ticks of silence have already taken the hand along.
            self.ticked = false;
            dt = dt.min(FRAME);
        }
        self.out.copy_from_slice(goal);
        self.master(dt)
    }

    /// No frame for another `dt` seconds: hold, then fade.
    pub fn silence(&mut self, dt: f64) -> &[f64] {
        self.ticked = true;
        self.out.copy_from_slice(self.presence.silence(dt));
        self.master(dt)
    }

    fn master(&mut self, dt: f64) -> &[f64] {
        match self.mode {
            Mode::Playing => {}
            Mode::Frozen => self.out.copy_from_slice(&self.frozen),
            Mode::Stopped | Mode::Panic => self.out.copy_from_slice(&self.neutral),
        }
        self.hand.step(&mut self.out, dt);
        &self.out
    }
}
