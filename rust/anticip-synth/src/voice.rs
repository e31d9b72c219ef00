//! The whole instrument.

use fundsp::audionode::AudioNode;
use fundsp::filter::DCBlock;

use crate::bells::{Bells, Stroke};
use crate::clock::{Beat, Chance, Strewer};
use crate::control::{FRAME, Line, Smoother};
use crate::error::SynthError;
use crate::limiter::Limiter;
use crate::pad::{Pad, PadControls};
use crate::params::{CHORDS, EVENTS, Event, PARAMETERS, Parameter, bell_rate, degree, frequency};
use crate::room::Room;
use crate::strike::Strike;

/// Events that can wait for their time.
const QUEUE: usize = 64;
/// Longest time an event may lie ahead or a fade may take, seconds.
const LONGEST: f64 = 60.0;
/// Smoothing of each parameter, seconds (95 % of a jump after 4.7 times as much).
const SMOOTHING: [f32; 8] = [0.012, 0.006, 0.008, 0.010, 0.010, 0.030, 0.010, 0.012];
/// Where the parameters stand before anything is set: silent, in the middle, dry.
const START: [f32; 8] = [0.4, 0.0, 0.4, 0.1, 0.2, 0.3, 0.5, 0.0];

#[derive(Clone, Copy)]
struct Waiting {
    due: u64,
    event: Event,
    strength: f32,
}

/// The built-in voice; see the crate's description.
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
#[derive(Clone)]
pub struct Voice {
    sample_rate: f64,
    targets: [f32; 8],
    smoothers: [Smoother; 8],
    chord: [Smoother; 3],
    chord_index: usize,
    boost: Smoother,
    boost_target: f32,
    swell: Smoother,
    swell_target: f32,
    gain: Line,
    gain_target: f32,
    gain_step: f32,
    beat: Beat,
    chance: Chance,
    strewer: Strewer,
    pad: Pad,
    bells: Bells,
    strike: Strike,
    room: Room,
    blockers: [DCBlock<f32>; 2],
    limiter: Limiter,
    waiting: [Option<Waiting>; QUEUE],
    /// The frame that is being played out, and how much of it is gone.
    frame: [[f32; 2]; FRAME],
    dry: [[f32; 2]; FRAME],
    wet: [[f32; 2]; FRAME],
    played: usize,
    position: u64,
    ignored: u64,
}

impl Voice {
    /// A silent voice; allocates all it will ever need.
    ///
    /// # Errors
    /// [`SynthError::SampleRate`] outside 8 to 192 kHz.
    pub fn new(sample_rate: f64) -> Result<Self, SynthError> {
        Self::with_seed(sample_rate, 0)
    }

    /// The same with a seed for the strewing of bells and the noise.
    ///
    /// # Errors
    /// [`SynthError::SampleRate`] outside 8 to 192 kHz.
    pub fn with_seed(sample_rate: f64, seed: u64) -> Result<Self, SynthError> {
        if !(8_000.0..=192_000.0).contains(&sample_rate) {
            return Err(SynthError::SampleRate(sample_rate));
        }
        let smoother = |tau: f32| Smoother::new(tau, sample_rate);
        let mut voice = Self {
            sample_rate,
            targets: START,
            smoothers: SMOOTHING.map(smoother),
            chord: [0.05; 3].map(smoother),
            chord_index: 0,
            boost: smoother(0.003),
            boost_target: 0.0,
            swell: smoother(0.12),
            swell_target: 0.0,
            gain: Line::flat(1.0),
            gain_target: 1.0,
            gain_step: 0.0,
            beat: Beat::new(sample_rate),
            chance: Chance::new(seed),
            strewer: Strewer::new(sample_rate),
            pad: Pad::new(sample_rate),
            bells: Bells::new(sample_rate),
            strike: Strike::new(sample_rate, seed ^ 0x5eed),
            room: Room::new(sample_rate),
            blockers: core::array::from_fn(|_| {
                let mut node = DCBlock::new(8.0);
                node.set_sample_rate(sample_rate);
                node
            }),
            limiter: Limiter::new(sample_rate),
            waiting: [None; QUEUE],
            frame: [[0.0; 2]; FRAME],
            dry: [[0.0; 2]; FRAME],
            wet: [[0.0; 2]; FRAME],
            played: FRAME,
            position: 0,
            ignored: 0,
        };
        voice.reset();
        Ok(voice)
    }

    /// Back to the state of a new voice, gain included; nothing is allocated.
    pub fn reset(&mut self) {
        self.targets = START;
        for (smoother, value) in self.smoothers.iter_mut().zip(START) {
            smoother.jump(value);
        }
        self.chord_index = 0;
        for (smoother, value) in self.chord.iter_mut().zip(CHORDS[0]) {
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
        self.chance.reset();
        self.strewer.reset();
        self.pad.reset();
        self.bells.reset();
        self.strike.reset();
        self.room.reset(START[Parameter::Space as usize]);
        for node in &mut self.blockers {
            node.reset();
        }
        self.limiter.reset();
        self.waiting = [None; QUEUE];
        self.played = FRAME;
        self.position = 0;
        self.ignored = 0;
    }

    /// Sets one parameter, 0..1 (clamped; what is not a number is ignored and counted).
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

    /// Sets all eight parameters, each as [`Voice::set`] does.
    pub fn params(&mut self, values: &[f32; 8]) {
        for (index, value) in values.iter().enumerate() {
            // The index is below eight.
            let _ = self.set(index, *value);
        }
    }

    /// Strikes an event of `strength` 0..1, `seconds` ahead of the next sample to be rendered.
    ///
    /// # Errors
    /// [`SynthError::Event`] for an unknown index, [`SynthError::Seconds`] outside 0..60,
    /// [`SynthError::QueueFull`] when 64 events wait already.
    pub fn event(&mut self, index: usize, strength: f32, seconds: f64) -> Result<(), SynthError> {
        let event = match index {
            0 => Event::Onset,
            1 => Event::Phrase,
            _ => return Err(SynthError::Event(index)),
        };
        debug_assert!(index < EVENTS.len());
        if !(0.0..=LONGEST).contains(&seconds) {
            return Err(SynthError::Seconds(seconds));
        }
        if !strength.is_finite() {
            self.ignored += 1;
            return Ok(());
        }
        let slot = self.waiting.iter_mut().find(|slot| slot.is_none());
        *slot.ok_or(SynthError::QueueFull(QUEUE))? = Some(Waiting {
            due: self.position + (seconds * self.sample_rate).round() as u64,
            event,
            strength: strength.clamp(0.0, 1.0),
        });
        Ok(())
    }

    /// Sets the master gain, 0..1, over 30 ms.
    pub fn gain(&mut self, value: f32) {
        // The length is in range.
        let _ = self.fade(value, 0.03);
    }

    /// Moves the master gain to `value`, 0..1, in a straight line over `seconds`; at 0 the output is exactly zero.
    ///
    /// # Errors
    /// [`SynthError::Seconds`] outside 0..60.
    pub fn fade(&mut self, value: f32, seconds: f64) -> Result<(), SynthError> {
        if !(0.0..=LONGEST).contains(&seconds) {
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

    /// Fills `output` with interleaved stereo samples, |x| <= [`crate::CEILING`].
    ///
    /// # Errors
    /// [`SynthError::Block`] for an odd length.
    pub fn render(&mut self, output: &mut [f32]) -> Result<(), SynthError> {
        let (pairs, rest) = output.as_chunks_mut::<2>();
        if !rest.is_empty() {
            return Err(SynthError::Block(2 * pairs.len() + 1));
        }
        let mut pairs = pairs;
        while !pairs.is_empty() {
            if self.played == FRAME {
                self.render_frame();
                self.played = 0;
            }
            let count = pairs.len().min(FRAME - self.played);
            let (now, later) = pairs.split_at_mut(count);
            now.copy_from_slice(&self.frame[self.played..self.played + count]);
            self.played += count;
            self.position += count as u64;
            pairs = later;
        }
        Ok(())
    }

    /// Samples by which the output lags what it answers to (the limiter's look-ahead), beside the wait for the
    /// next frame of at most [`FRAME`] samples.
    pub fn latency(&self) -> usize {
        self.limiter.latency()
    }

    /// Samples a second.
    pub fn sample_rate(&self) -> f64 {
        self.sample_rate
    }

    /// Stereo samples rendered since the last reset.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Values refused since the last reset because they were no numbers.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    fn frame_seconds(&self) -> f32 {
        (FRAME as f64 / self.sample_rate) as f32
    }

    fn happen(&mut self, event: Event, strength: f32) {
        match event {
            Event::Onset => {
                self.boost_target = self.boost_target.max(strength);
                self.strike.strike(0.55 * strength);
                let root = degree(self.targets[Parameter::Pitch as usize]);
                self.bells.strike(Stroke {
                    frequency: frequency(root + 7.0),
                    ratio: 3.5,
                    index: 1.0 + 2.0 * strength,
                    amplitude: 0.34 * strength,
                    decay: 0.32,
                    weights: [1.0; 2],
                });
            }
            Event::Phrase => {
                self.chord_index = (self.chord_index + 1) % CHORDS.len();
                self.swell_target = self.swell_target.max(strength);
                let root = degree(self.targets[Parameter::Pitch as usize]);
                self.bells.strike(Stroke {
                    frequency: frequency(root - 7.0),
                    ratio: 1.41,
                    index: 1.2,
                    amplitude: 0.26 * strength,
                    decay: 1.1,
                    weights: [1.0; 2],
                });
            }
        }
    }

    /// Lets everything happen that is due before the end of the frame.
    fn events(&mut self) {
        let end = self.position + FRAME as u64;
        for i in 0..QUEUE {
            if let Some(waiting) = self.waiting[i]
                && waiting.due < end
            {
                self.waiting[i] = None;
                self.happen(waiting.event, waiting.strength);
            }
        }
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

    /// Strews a bell if its time has come.
    fn strew(&mut self, brightness: f32, roughness: f32, pan: f32) {
        let density = self.targets[Parameter::Density as usize];
        if !self.strewer.frame(bell_rate(density), &mut self.chance) {
            return;
        }
        const STEPS: [f32; 6] = [0.0, 2.0, 4.0, 6.0, 7.0, 9.0];
        let step = STEPS[(self.chance.next() * STEPS.len() as f32) as usize % STEPS.len()];
        let root = degree(self.targets[Parameter::Pitch as usize]).round();
        // The wider the room on either side of the place, the farther a bell may stray from it.
        let stray = (self.chance.next() - 0.5) * (1.0 - (2.0 * pan - 1.0).abs());
        let angle = (0.5 + stray) * core::f32::consts::FRAC_PI_2;
        let loud = 0.55 + 0.45 * self.chance.next();
        self.bells.strike(Stroke {
            frequency: frequency(root + 7.0 + step),
            ratio: 2.0 + 0.37 * roughness,
            index: 0.3 + 2.4 * brightness + roughness,
            amplitude: 0.26 * loud,
            decay: 0.26 - 0.18 * density,
            weights: [angle.cos(), angle.sin()].map(|w| w * core::f32::consts::SQRT_2),
        });
    }

    fn render_frame(&mut self) {
        self.events();
        let lines: [Line; 8] = core::array::from_fn(|i| self.smoothers[i].step(self.targets[i]));
        let [pitch, loudness, brightness, roughness, _, space, pan, pulse] = lines;
        let chord: [Line; 3] = core::array::from_fn(|v| self.chord[v].step(CHORDS[self.chord_index][v]));
        let dt = self.frame_seconds();
        let boost = self.boost.step(self.boost_target);
        self.boost_target *= (-dt / 0.12).exp();
        let swell = self.swell.step(self.swell_target);
        self.swell_target *= (-dt / 1.4).exp();
        let beat = self.beat.frame();
        let gain = self.step_gain();
        self.strew(brightness.to, roughness.to, pan.to);

        let octaves = Line {
            from: 6.0 * brightness.from + 1.5 * boost.from + swell.from + pulse.from * beat.from,
            to: 6.0 * brightness.to + 1.5 * boost.to + swell.to + pulse.to * beat.to,
        };
        let controls = PadControls {
            degree: pitch.map(degree),
            chord,
            roughness,
            octaves,
        };
        self.pad.render(&controls, &mut self.dry);
        for (i, x) in self.dry.iter_mut().enumerate() {
            // Strokes rise above the steady level by as much as keeps the pulsed pad about as loud.
            let rhythm = 1.0 - pulse.at(i) * (1.0 - 1.9 * beat.at(i));
            let level = rhythm * (1.0 + 0.5 * boost.at(i) + 0.6 * swell.at(i));
            // Here, where the pad never stops, the blockers cannot run into denormal numbers.
            for (v, node) in x.iter_mut().zip(&mut self.blockers) {
                *v = node.filter_mono(*v) * level;
            }
        }
        self.bells.render(&mut self.dry);
        self.strike.render(&mut self.dry);
        self.place(loudness, pan);
        self.room.render(&self.dry, &mut self.wet, space);
        for i in 0..FRAME {
            let s = space.at(i);
            let (direct, reverberant) = (1.0 - 0.3 * s, 0.75 * s * (1.0 + 0.3 * swell.at(i)));
            let mixed = core::array::from_fn(|k| {
                (direct * self.dry[i][k] + reverberant * self.wet[i][k]) * gain.at(i)
            });
            self.frame[i] = self.limiter.tick(mixed);
        }
    }

    /// Loudness and equal-power place of the dry sound: its middle goes to the place, its sides around it.
    fn place(&mut self, loudness: Line, pan: Line) {
        let angle = |p: f32| p * core::f32::consts::FRAC_PI_2;
        let left = pan.map(|p| core::f32::consts::SQRT_2 * angle(p).cos());
        let right = pan.map(|p| core::f32::consts::SQRT_2 * angle(p).sin());
        for (i, x) in self.dry.iter_mut().enumerate() {
            let loud = loudness.at(i);
            let level = 1.65 * loud * loud;
            let middle = 0.5 * (x[0] + x[1]);
            let side = 0.5 * (x[0] - x[1]);
            *x = [
                left.at(i) * level * (middle + side),
                right.at(i) * level * (middle - side),
            ];
        }
    }
}
