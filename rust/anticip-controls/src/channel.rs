//! One output vector: smoothing, shaping, fades on signal loss, and the freeze, stop and panic modes.

use crate::crossfade::Crossfade;
use crate::presence::{Presence, Silence};
use crate::shaping::Shaper;
use crate::shared::Shared;
use crate::smoothing::{Smoother, Smoothing};

/// What the performer or operator has asked the output to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Output follows the input.
    Playing,
    /// Output holds its values.
    Frozen,
    /// Output fades to its stopped value.
    Stopped,
    /// Output fades to its stopped value at once.
    Panic,
}

/// Fade time when playing or freezing, in seconds.
const RELEASE_S: f64 = 0.4;
/// Fade time of a stop, in seconds.
const STOP_S: f64 = 1.0;
/// Fade time of a panic, in seconds.
const PANIC_S: f64 = 0.05;
/// Nominal frame interval, in seconds.
const FRAME_S: f64 = 0.02;

/// A vector of any length; `neutral` is its value when there is no performer.
///
/// Shapers run after the smoothing, so that gates stay sharp, and before the fades on signal loss and of the
/// modes, whatever the shape.
#[derive(Debug, Clone)]
pub struct Channel {
    /// Smooths the input.
    pub smoother: Smoother,
    presence: Presence,
    shapers: Vec<(usize, Shared<Shaper>)>,
    stopped: Vec<f64>,
    mode_fade: Crossfade,
    out: Vec<f64>,
    frozen: Vec<f64>,
    was_silent: bool,
    mode: Mode,
}

impl Channel {
    /// Starts at neutral; `smoothing` and `neutral` have one entry per output.
    #[must_use]
    pub fn new(smoothing: Vec<Smoothing>, silence: Silence, neutral: &[f64]) -> Self {
        Self {
            smoother: Smoother::new(smoothing),
            presence: Presence::new(silence, neutral),
            shapers: Vec::new(),
            stopped: neutral.to_vec(),
            mode_fade: Crossfade::new(RELEASE_S),
            out: neutral.to_vec(),
            frozen: neutral.to_vec(),
            was_silent: false,
            mode: Mode::Playing,
        }
    }

    /// Makes the value at `place` 0 when stopped, instead of neutral.
    pub fn mute_stopped(&mut self, place: usize) {
        self.stopped[place] = 0.0;
    }

    /// Sets the shapers, each with the index of its value, from the next frame on.
    pub fn set_shapers(&mut self, shapers: Vec<(usize, Shared<Shaper>)>) {
        self.shapers = shapers;
        self.shapers.retain(|(place, _)| *place < self.out.len());
    }

    /// The latest output vector.
    #[must_use]
    pub fn out(&self) -> &[f64] {
        &self.out
    }

    /// The current mode.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The fade settings on signal loss.
    #[must_use]
    pub fn silence_settings(&self) -> Silence {
        self.presence.settings()
    }

    /// Seconds without a frame.
    #[must_use]
    pub fn silent_s(&self) -> f64 {
        self.presence.silent_s()
    }

    /// Sets the current output; `values` has one entry per output.
    pub fn begin(&mut self, values: &[f64]) {
        self.out.copy_from_slice(values);
        self.presence.begin(values);
        self.presence.restart();
    }

    /// Eases from the current output into the next frame.
    pub fn restart(&mut self) {
        self.presence.restart();
    }

    /// Eases from `last_sent`, the last output that was sent, into the next output, whether frame or silence.
    pub fn resume(&mut self, last_sent: &[f64]) {
        self.out.copy_from_slice(last_sent);
        self.mode_fade.start(last_sent);
    }

    /// Changes the mode, easing from the current output.
    pub fn set_mode(&mut self, mode: Mode) {
        self.mode_fade.seconds = match mode {
            Mode::Stopped => STOP_S,
            Mode::Panic => PANIC_S,
            Mode::Playing | Mode::Frozen => RELEASE_S,
        };
        self.frozen.copy_from_slice(&self.out);
        self.mode = mode;
        self.mode_fade.start(&self.out);
    }

    /// Stops within `seconds`, whatever the mode.
    pub fn fade_out(&mut self, seconds: f64) {
        self.mode = Mode::Stopped;
        self.mode_fade.seconds = seconds;
        self.mode_fade.start(&self.out);
    }

    /// The output for a frame, `dt` seconds of source time after the last; overwrites `goal`.
    pub fn play(&mut self, goal: &mut [f64], mut dt: f64) -> &[f64] {
        self.smoother.step(goal, dt);
        for (place, shaper) in &self.shapers {
            goal[*place] = shaper.with(|shaper| shaper.step(goal[*place], dt));
        }
        self.presence.live(goal, dt);
        if self.was_silent {
            // The silent ticks since the last frame have already advanced the fade.
            self.was_silent = false;
            dt = dt.min(FRAME_S);
        }
        self.out.copy_from_slice(goal);
        self.apply_mode(dt)
    }

    /// The output without a frame for another `dt` seconds: held, then faded.
    pub fn silence(&mut self, dt: f64) -> &[f64] {
        self.out.copy_from_slice(self.presence.silence(dt));
        // The first call also counts the forecast frames, which have already advanced the fade.
        let is_first = !std::mem::replace(&mut self.was_silent, true);
        self.apply_mode(if is_first { dt.min(FRAME_S) } else { dt })
    }

    fn apply_mode(&mut self, dt: f64) -> &[f64] {
        match self.mode {
            Mode::Playing => {}
            Mode::Frozen => self.out.copy_from_slice(&self.frozen),
            Mode::Stopped | Mode::Panic => self.out.copy_from_slice(&self.stopped),
        }
        self.mode_fade.step(&mut self.out, dt);
        &self.out
    }
}
