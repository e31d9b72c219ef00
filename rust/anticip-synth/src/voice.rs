//! The complete instrument.

use core::f32::consts::FRAC_PI_2;

use crate::clock::Beat;
use crate::control::{FRAME, Line, Smoother, decayed, frame_seconds};
use crate::error::SynthError;
use crate::harmony::Harmony;
use crate::limiter::Limiter;
use crate::manner::Manner;
use crate::params::{Event, LIMBS, PARAMETERS, Parameter, Settings};
use crate::presets::{Controls, Instrument, PRESETS, position};
use crate::queue::{QUEUE_SIZE, Queue};
use crate::room::Room;
use crate::tone::apply_loudness_and_pan;

/// Maximum delay of an event and duration of a fade, seconds.
const MAX_SECONDS: f64 = 60.0;
/// Duration of the crossfade between presets, seconds.
const CROSSFADE_S: f64 = 0.4;
/// Gain of the mix before the limiter: a lively dance is at -16 LUFS.
const LEVEL: f32 = 0.7;
/// Smoothing time constant of each parameter, seconds (95 % of a step after 4.7 times as much).
const SMOOTHING_S: [f32; 8] = [0.012, 0.006, 0.008, 0.010, 0.010, 0.030, 0.010, 0.012];
/// Initial parameters: silent, centred, nearly dry.
const INITIAL: [f32; 8] = [0.4, 0.0, 0.4, 0.1, 0.2, 0.3, 0.5, 0.0];

/// A preset and how far it is faded in, 0..1.
struct Player {
    instrument: Box<dyn Instrument>,
    fade: f32,
}

/// The built-in voice; see the crate documentation.
///
/// ```
/// use anticip_synth::{CEILING, Event, Parameter, Voice};
/// let mut voice = Voice::new(48_000.0)?;
/// voice.set(Parameter::Loudness as usize, 0.8)?;
/// voice.event(Event::Onset as usize, 1.0, 0.05)?;
/// let mut block = vec![0.0; 2 * 480];
/// voice.render(&mut block)?;
/// assert!(block.iter().all(|x| x.abs() <= CEILING));
/// # Ok::<(), anticip_synth::SynthError>(())
/// ```
pub struct Voice {
    sample_rate: f64,
    targets: [f32; 8],
    smoothers: [Smoother; 8],
    harmony: Harmony,
    chord: [Smoother; 3],
    phrase: usize,
    boost: Smoother,
    boost_target: f32,
    swell: Smoother,
    swell_target: f32,
    gain: Line,
    gain_target: f32,
    gain_step: f32,
    beat: Beat,
    limbs: [[Smoother; 2]; 4],
    limb_targets: [[f32; 2]; 4],
    has_limbs: bool,
    limb_strokes: [f32; 4],
    manner: Manner,
    players: Vec<Player>,
    initial_preset: usize,
    current_preset: usize,
    fade_step: f32,
    room: Room,
    limiter: Limiter,
    queue: Queue,
    /// The frame being output.
    frame: [[f32; 2]; FRAME],
    /// Output of one preset.
    part: [[f32; 2]; FRAME],
    dry: [[f32; 2]; FRAME],
    wet: [[f32; 2]; FRAME],
    /// Samples of `frame` already output.
    frame_position: usize,
    position: u64,
    ignored: u64,
}

impl Voice {
    /// A silent voice; allocates all memory it will ever need.
    ///
    /// # Errors
    /// [`SynthError::SampleRate`] outside 8 to 192 kHz.
    pub fn new(sample_rate: f64) -> Result<Self, SynthError> {
        Self::with(sample_rate, &Settings::default())
    }

    /// A silent voice with settings.
    ///
    /// # Errors
    /// [`SynthError::SampleRate`] outside 8 to 192 kHz, [`SynthError::Preset`] for an unknown preset,
    /// [`SynthError::NoSamples`] for a preset that plays samples without any, [`SynthError::Samples`] for
    /// samples of another sample rate.
    pub fn with(sample_rate: f64, settings: &Settings) -> Result<Self, SynthError> {
        if !(8_000.0..=192_000.0).contains(&sample_rate) {
            return Err(SynthError::SampleRate(sample_rate));
        }
        if let Some(samples) = &settings.samples
            && samples.sample_rate() != sample_rate
        {
            let samples_rate = samples.sample_rate();
            return Err(SynthError::Samples(format!(
                "expected to be read at the voice's {sample_rate} Hz, got {samples_rate} Hz"
            )));
        }
        let initial_preset = settings.preset.as_deref().map_or(Ok(0), position)?;
        let smoother = |tau: f32| Smoother::new(tau, sample_rate);
        let mut voice = Self {
            sample_rate,
            targets: INITIAL,
            smoothers: SMOOTHING_S.map(smoother),
            harmony: settings.harmony.clone(),
            chord: [0.05; 3].map(smoother),
            phrase: 0,
            boost: smoother(0.003),
            boost_target: 0.0,
            swell: smoother(0.12),
            swell_target: 0.0,
            gain: Line::flat(1.0),
            gain_target: 1.0,
            gain_step: 0.0,
            beat: Beat::new(sample_rate),
            limbs: core::array::from_fn(|_| [smoother(0.012), smoother(0.012)]),
            limb_targets: [[0.0; 2]; 4],
            has_limbs: false,
            limb_strokes: [0.0; 4],
            manner: Manner::new(sample_rate),
            players: PRESETS
                .iter()
                .map(|preset| Player {
                    instrument: (preset.build)(sample_rate, settings),
                    fade: 0.0,
                })
                .collect(),
            initial_preset,
            current_preset: initial_preset,
            fade_step: (FRAME as f64 / (CROSSFADE_S * sample_rate)) as f32,
            room: Room::new(sample_rate),
            limiter: Limiter::new(sample_rate),
            queue: Queue::new(),
            frame: [[0.0; 2]; FRAME],
            part: [[0.0; 2]; FRAME],
            dry: [[0.0; 2]; FRAME],
            wet: [[0.0; 2]; FRAME],
            frame_position: FRAME,
            position: 0,
            ignored: 0,
        };
        voice.players[initial_preset].instrument.ready()?;
        voice.reset();
        Ok(voice)
    }

    /// Resets to the state of a new voice, preset and gain included; allocates nothing.
    pub fn reset(&mut self) {
        self.targets = INITIAL;
        for (smoother, value) in self.smoothers.iter_mut().zip(INITIAL) {
            smoother.jump(value);
        }
        self.phrase = 0;
        for (smoother, value) in self.chord.iter_mut().zip(self.harmony.chord(0)) {
            smoother.jump(value);
        }
        self.boost.jump(0.0);
        self.boost_target = 0.0;
        self.swell.jump(0.0);
        self.swell_target = 0.0;
        self.gain = Line::flat(1.0);
        self.gain_target = 1.0;
        self.gain_step = 0.0;
        self.beat.reset();
        self.limbs.iter_mut().flatten().for_each(|line| line.jump(0.0));
        self.limb_targets = [[0.0; 2]; 4];
        self.has_limbs = false;
        self.limb_strokes = [0.0; 4];
        self.current_preset = self.initial_preset;
        self.clear(INITIAL[Parameter::Space as usize]);
        self.limiter.reset();
        self.queue.clear();
        self.frame_position = FRAME;
        self.position = 0;
        self.ignored = 0;
    }

    /// Crossfades to another preset within 0.4 s; allocates nothing.
    ///
    /// # Errors
    /// [`SynthError::Preset`] for an unknown name, [`SynthError::NoSamples`] for a preset that plays samples
    /// without any; the preset then stays.
    pub fn preset(&mut self, name: &str) -> Result<(), SynthError> {
        let index = position(name)?;
        self.players[index].instrument.ready()?;
        self.current_preset = index;
        Ok(())
    }

    /// Whether there are samples, and so every preset can be played.
    #[must_use]
    pub fn has_samples(&self) -> bool {
        self.players
            .iter()
            .all(|player| player.instrument.ready().is_ok())
    }

    /// Sets one parameter, clamped to 0..1; a non-finite value is ignored and counted.
    ///
    /// # Errors
    /// [`SynthError::Parameter`] for an index above 7.
    pub fn set(&mut self, index: usize, value: f32) -> Result<(), SynthError> {
        if index >= PARAMETERS.len() {
            return Err(SynthError::Parameter(index));
        }
        if value.is_finite() {
            self.targets[index] = value.clamp(0.0, 1.0);
        } else {
            self.ignored += 1;
        }
        Ok(())
    }

    /// Sets all eight parameters as [`Voice::set`] does.
    pub fn params(&mut self, values: &[f32; 8]) {
        for (index, value) in values.iter().enumerate() {
            let _ = self.set(index, *value); // The index is always valid.
        }
    }

    /// Schedules an event of `strength` 0..1, `seconds` ahead of the next sample to be rendered.
    ///
    /// # Errors
    /// [`SynthError::Event`] for an unknown index, [`SynthError::Seconds`] outside 0..60,
    /// [`SynthError::QueueFull`] if 64 events are waiting.
    pub fn event(&mut self, index: usize, strength: f32, seconds: f64) -> Result<(), SynthError> {
        let event = match index {
            0 => Event::Onset,
            1 => Event::Phrase,
            _ => return Err(SynthError::Event(index)),
        };
        if !(0.0..=MAX_SECONDS).contains(&seconds) {
            return Err(SynthError::Seconds(seconds));
        }
        if !strength.is_finite() {
            self.ignored += 1;
            return Ok(());
        }
        let due = self.position + (seconds * self.sample_rate).round() as u64;
        self.queue.push(due, event, strength.clamp(0.0, 1.0))
    }

    /// Sets the master gain, 0..1, over 30 ms.
    pub fn gain(&mut self, value: f32) {
        let _ = self.fade(value, 0.03); // The duration is always valid.
    }

    /// Moves the master gain to `value`, 0..1, linearly over `seconds`. At 0 the output is exactly zero and
    /// all tails are cut off.
    ///
    /// # Errors
    /// [`SynthError::Seconds`] outside 0..60.
    pub fn fade(&mut self, value: f32, seconds: f64) -> Result<(), SynthError> {
        if !(0.0..=MAX_SECONDS).contains(&seconds) {
            return Err(SynthError::Seconds(seconds));
        }
        if !value.is_finite() {
            self.ignored += 1;
            return Ok(());
        }
        self.gain_target = value.clamp(0.0, 1.0);
        // At least ten frames (13 ms at 48 kHz): a shorter fade would click.
        let frames = (seconds * self.sample_rate / FRAME as f64).max(10.0);
        self.gain_step = ((f64::from(self.gain_target - self.gain.to)).abs() / frames) as f32;
        Ok(())
    }

    /// Sets the beat that the rhythm follows: 20 to 400 beats per minute, and its current phase, 0..1. Other
    /// values are ignored and counted.
    pub fn tempo(&mut self, bpm: f32, phase: f32) {
        if (20.0..=400.0).contains(&bpm) && (0.0..=1.0).contains(&phase) {
            self.beat.follow(bpm, phase);
        } else {
            self.ignored += 1;
        }
    }

    /// Sets the speed and height of a limb, and the strength of a stroke that it ends now (0 for none), each
    /// clamped to 0..1; ignored and counted if one is not finite.
    ///
    /// # Errors
    /// [`SynthError::Limb`] for an index above 3.
    pub fn limb(&mut self, index: usize, speed: f32, height: f32, stroke: f32) -> Result<(), SynthError> {
        if index >= LIMBS.len() {
            return Err(SynthError::Limb(index));
        }
        if speed.is_finite() && height.is_finite() && stroke.is_finite() {
            self.limb_targets[index] = [speed, height].map(|value| value.clamp(0.0, 1.0));
            self.limb_strokes[index] = self.limb_strokes[index].max(stroke.clamp(0.0, 1.0));
            self.has_limbs = true;
        } else {
            self.ignored += 1;
        }
        Ok(())
    }

    /// Fills `output` with interleaved stereo samples, |x| <= [`crate::CEILING`].
    ///
    /// # Errors
    /// [`SynthError::Block`] for an odd length.
    pub fn render(&mut self, output: &mut [f32]) -> Result<(), SynthError> {
        let (pairs, odd_sample) = output.as_chunks_mut::<2>();
        if !odd_sample.is_empty() {
            return Err(SynthError::Block(2 * pairs.len() + 1));
        }
        let mut pairs = pairs;
        while !pairs.is_empty() {
            if self.frame_position == FRAME {
                self.render_frame();
                self.frame_position = 0;
            }
            let count = pairs.len().min(FRAME - self.frame_position);
            let (to_fill, rest_of_output) = pairs.split_at_mut(count);
            to_fill.copy_from_slice(&self.frame[self.frame_position..self.frame_position + count]);
            self.frame_position += count;
            self.position += count as u64;
            pairs = rest_of_output;
        }
        Ok(())
    }

    /// Latency of the output in samples (the limiter's look-ahead), in addition to the wait for the next
    /// frame of at most [`FRAME`] samples.
    pub fn latency(&self) -> usize {
        self.limiter.latency()
    }

    /// Samples per second.
    pub fn sample_rate(&self) -> f64 {
        self.sample_rate
    }

    /// Stereo samples rendered since the last reset.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Number of non-finite values ignored since the last reset.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Cuts off all tails, fades the current preset in at once, and forgets the performer's manner.
    fn clear(&mut self, space: f32) {
        for (i, player) in self.players.iter_mut().enumerate() {
            player.fade = if i == self.current_preset { 1.0 } else { 0.0 };
            player.instrument.reset();
        }
        self.room.reset(space);
        self.manner.reset();
    }

    /// Effect of an event on all presets: an onset boosts, a phrase changes the chord and swells.
    fn apply_event(&mut self, event: Event, strength: f32) {
        match event {
            Event::Onset => self.boost_target = self.boost_target.max(strength),
            Event::Phrase => {
                self.phrase += 1;
                self.swell_target = self.swell_target.max(strength);
            }
        }
    }

    /// Applies and returns the events due before the end of the frame, in slot order.
    fn apply_due_events(&mut self) -> [Option<(Event, f32)>; QUEUE_SIZE] {
        let due = self.queue.take(self.position + FRAME as u64);
        for (event, strength) in due.into_iter().flatten() {
            self.apply_event(event, strength);
        }
        due
    }

    fn step_gain(&mut self) -> Line {
        let distance = self.gain_target - self.gain.to;
        let to = if distance.abs() <= self.gain_step {
            self.gain_target
        } else {
            self.gain.to + self.gain_step.copysign(distance)
        };
        self.gain = Line {
            from: self.gain.to,
            to,
        };
        self.gain
    }

    fn render_frame(&mut self) {
        let due = self.apply_due_events();
        let lines: [Line; 8] = core::array::from_fn(|i| self.smoothers[i].step(self.targets[i]));
        let [pitch, loudness, brightness, roughness, _, space, pan, pulse] = lines;
        let steps = self.harmony.chord(self.phrase);
        let chord: [Line; 3] = core::array::from_fn(|v| self.chord[v].step(steps[v]));
        let dt = frame_seconds(self.sample_rate);
        let boost = self.boost.step(self.boost_target);
        self.boost_target = decayed(self.boost_target, dt / 0.12);
        let swell = self.swell.step(self.swell_target);
        self.swell_target = decayed(self.swell_target, dt / 1.4);
        let beat = self.beat.frame();
        let was_audible = self.gain.from > 0.0;
        let gain = self.step_gain();
        let limbs: [[Line; 2]; 4] = core::array::from_fn(|limb| {
            core::array::from_fn(|i| self.limbs[limb][i].step(self.limb_targets[limb][i]))
        });
        let limb_strokes = core::mem::take(&mut self.limb_strokes);
        if gain.from <= 0.0 && gain.to <= 0.0 {
            if was_audible || self.players[self.current_preset].fade < 1.0 {
                self.clear(space.to);
            }
            self.frame = core::array::from_fn(|_| self.limiter.tick([0.0; 2]));
            return;
        }

        let manner = self.manner.frame(
            [pitch, roughness, space, pulse].map(|line| line.to),
            self.has_limbs.then(|| 0.5 * (limbs[0][0].to + limbs[1][0].to)),
            self.targets[Parameter::Loudness as usize],
        );
        let controls = Controls {
            harmony: &self.harmony,
            targets: &self.targets,
            pitch,
            degree: pitch.map(|p| self.harmony.degree(p)),
            brightness,
            roughness,
            space,
            pan,
            pulse,
            chord,
            boost,
            swell,
            beat,
            stroke: self.beat.new_stroke(),
            limbs,
            has_limbs: self.has_limbs,
            limb_strokes,
            manner,
        };
        self.dry = [[0.0; 2]; FRAME];
        for (i, player) in self.players.iter_mut().enumerate() {
            let goal = if i == self.current_preset { 1.0 } else { 0.0 };
            let line = Line {
                from: player.fade,
                to: player.fade + (goal - player.fade).clamp(-self.fade_step, self.fade_step),
            };
            player.fade = line.to;
            if line.from <= 0.0 && line.to <= 0.0 {
                continue;
            }
            for (event, strength) in due.into_iter().flatten() {
                player.instrument.event(event, strength, &controls);
            }
            player.instrument.render(&controls, &mut self.part);
            // Equal power, because two presets are uncorrelated.
            let level = line.map(|p| if p < 1.0 { (p * FRAC_PI_2).sin() } else { 1.0 });
            for (i, (y, x)) in self.dry.iter_mut().zip(&self.part).enumerate() {
                y[0] += x[0] * level.at(i);
                y[1] += x[1] * level.at(i);
            }
            if line.to <= 0.0 {
                player.instrument.reset();
            }
        }
        apply_loudness_and_pan(&mut self.dry, loudness, pan);
        self.room.render(&self.dry, &mut self.wet, space);
        for i in 0..FRAME {
            let s = space.at(i);
            // More reverberation would sound late, as energy that comes after the movement.
            let (direct, reverberant) = (1.0 - 0.22 * s, 0.3 * s * (1.0 + 0.3 * swell.at(i)));
            let mixed = core::array::from_fn(|k| {
                (direct * self.dry[i][k] + reverberant * self.wet[i][k]) * LEVEL * gain.at(i)
            });
            self.frame[i] = self.limiter.tick(mixed);
        }
    }
}
