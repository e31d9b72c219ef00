//! From poses in the order of arrival to feature rows on the grid.

use std::time::Instant;

use anticip_wire::{PoseUpdate, SkeletonUpdate};

use super::body::Body;
use super::clock::{Stamp, StreamClock, When};
use super::output::{Counters, FrontOutput, Stages};
use super::row::{gate_for, row, still};
use super::{FrontConfig, Source};
use crate::MotionError;
use crate::canonical::JOINT_COUNT;
use crate::completion::Completion;
use crate::features::{FeatureExtractor, RATE};
use crate::limbs::LimbTracker;
use crate::noise::NoiseGate;
use crate::pose::Pose;
use crate::resample::{GridFrame, MAX_GAP, Pushed, Resampler};
use crate::tempo::TempoTracker;

/// A source slower than this between two frames (seconds) has left a gap.
const GAP: f64 = 0.1;
/// How far a source's time may be from a grid time (grid steps) to be taken for it: a source of 50 Hz whose clock is
/// rounded to milliseconds is not to wait for its next frame. More where the source has the grid's own rate.
/// Where the clock tells no finer, up to the second; beyond that frames would be moved that can be told apart.
const COARSE: f64 = 0.05;
const COARSEST: f64 = 0.1;
const SAME_RATE: (f64, f64) = (0.01, 0.25);
/// Times beyond this (seconds) are no times.
const ENDLESS: f64 = 9e9;
/// The part of the grid's interval that a frame may be late, jitter apart, before the grid goes on without it; and how
/// much jitter (seconds) it waits for.
const LATE: f64 = 0.25;
const MOST_JITTER: f64 = 0.01;
/// Between two frames of the source the grid goes on without the second where that comes later than this part of their
/// interval, or than so many seconds, after the grid's own time.
const NEARER: f64 = 0.5;
const LONGEST_WAIT: f64 = 0.01;

pub(super) struct Stage {
    source: Source,
    config: FrontConfig,
    body: Body,
    /// Why the body that the source told last cannot be played; its frames are not.
    refusal: Option<String>,
    /// False while another sender plays: frames are followed, but put on no grid.
    playing: bool,
    clock: StreamClock,
    resampler: Resampler,
    extractor: Option<FeatureExtractor>,
    /// What solves the joints that a body of few sensors lacks.
    completion: Option<Completion>,
    /// Joints (bit j) of the body whose rotations say where others are, and no more.
    placed: u32,
    tempo: TempoTracker,
    limbs: LimbTracker,
    gate: Option<NoiseGate>,
    /// Canonical joints not measured in the newest frame, and in the one before.
    held: [u32; 2],
    pose: Pose,
    scratch: Pose,
    out: FrontOutput,
    /// The frame after the newest, before it is there.
    guess: FrontOutput,
    /// When decoding ended; the first pose of a datagram stamps it.
    decoded: Option<Instant>,
    scalars_ns: i64,
}

impl Stage {
    pub(super) fn new(source: Source, config: FrontConfig) -> Result<Self, MotionError> {
        Ok(Self {
            source,
            config,
            refusal: None,
            playing: false,
            clock: StreamClock::new(),
            resampler: Resampler::new(JOINT_COUNT, RATE, Some(MAX_GAP))?.curved(),
            extractor: None,
            completion: None,
            placed: 0,
            tempo: TempoTracker::default(),
            limbs: LimbTracker::default(),
            gate: None,
            body: Body::standard(source)?,
            held: [0; 2],
            pose: Pose::identity(JOINT_COUNT),
            scratch: Pose::identity(JOINT_COUNT),
            out: FrontOutput::default(),
            guess: FrontOutput::default(),
            decoded: None,
            scalars_ns: 0,
        })
    }

    /// How sure each joint is: 1 where it is measured, less where it is solved, 0 where there is none.
    pub(super) fn confidence(&self) -> [f32; JOINT_COUNT] {
        let measured = self.body.mask().map(|there| f32::from(u8::from(there)));
        self.completion.as_ref().map_or(measured, |c| *c.confidence())
    }

    /// The joints that the features have: measured or solved.
    pub(super) fn mask(&self) -> [bool; JOINT_COUNT] {
        if self.completion.is_some() {
            [true; JOINT_COUNT]
        } else {
            *self.body.mask()
        }
    }

    pub(super) fn noise(&self) -> Option<[f64; JOINT_COUNT]> {
        self.gate.as_ref().map(NoiseGate::noise)
    }

    pub(super) fn names(&self) -> Option<&[String]> {
        self.body.announced().then(|| self.body.names())
    }

    /// Whether the body is the source's own.
    pub(super) fn has_skeleton(&self) -> bool {
        self.body.told()
    }

    /// Why the source's body cannot be played.
    pub(super) fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    pub(super) fn clock(&self) -> &StreamClock {
        &self.clock
    }

    /// Whether its rows are made.
    pub(super) fn plays(&self) -> bool {
        self.playing
    }

    /// Plays from the next frame on, as the beginning of a stream; or only follows.
    pub(super) fn play(&mut self, playing: bool) {
        self.playing = playing;
        self.clock.reset();
        self.rebuild();
    }

    /// Begins a datagram.
    pub(super) fn clear(&mut self) {
        self.out.rows.clear();
        self.out.poses.clear();
        self.out.reset = false;
        self.out.filled = 0;
        self.out.stages = Stages::default();
        self.decoded = None;
        self.scalars_ns = 0;
    }

    /// Takes a skeleton the source tells.
    pub(super) fn skeleton(&mut self, update: &SkeletonUpdate, counters: &mut Counters) {
        self.clock.declare(update.rate);
        match self.body.set_skeleton(update) {
            Ok(changed) => {
                // Of the same body once more, what was found out about it holds.
                self.refusal = self.body.disagreement().map(str::to_owned);
                if changed {
                    self.rebuild();
                }
            }
            Err(error) => {
                counters.malformed += 1;
                self.refusal = Some(error.to_string());
            }
        }
    }

    /// Of what follows these joints (bit j) only say where others are.
    pub(super) fn places(&mut self, placed: u32) {
        if std::mem::replace(&mut self.placed, placed) != placed {
            self.rebuild();
        }
    }

    /// The body or its mask is another one: what follows is a new stream of features.
    fn rebuild(&mut self) {
        self.resampler.restart();
        self.completion = match self.placed {
            0 => Completion::new(self.body.mask()),
            placed => Completion::placed(self.body.mask(), placed),
        };
        self.extractor = FeatureExtractor::new(&self.mask(), self.config.window).ok();
        self.gate = gate_for(self.config, self.body.mask());
    }

    /// Takes one pose; true where it is a frame that goes on as the stream does.
    pub(super) fn frame(&mut self, pose: &PoseUpdate, arrival_ns: i64, counters: &mut Counters) -> bool {
        if self.decoded.is_none() {
            self.decoded = Some(Instant::now());
        }
        let refused = self.refusal.is_some();
        if !refused && !self.body.fits(pose) {
            counters.malformed += 1;
            return false;
        }
        let stamp = Stamp {
            number: pose.seq,
            time: pose.time.filter(|t| t.abs() < ENDLESS),
            arrival: arrival_ns as f64 * 1e-9,
        };
        let mut when = self.clock.take(stamp);
        if when == When::Doubled && self.clock.stands_still(pose) {
            when = self.clock.take(stamp);
        }
        let (seconds, lost, anew) = match when {
            When::Next { seconds, lost, anew } => (seconds, lost, anew),
            When::Same => {
                self.complete(pose, counters);
                return false;
            }
            When::Doubled => {
                counters.doubled += 1;
                return false;
            }
            When::Late { lost } => {
                counters.overtaken(lost);
                return false;
            }
            When::Strange => {
                counters.strange += 1;
                return false;
            }
        };
        counters.lost += lost;
        if anew {
            self.resampler.restart();
        }
        if refused {
            counters.refused += 1;
            return false;
        }
        counters.frames += 1;
        counters.numbered += u64::from(pose.seq.is_some());
        if self.body.take(pose, false) {
            self.rebuild();
        }
        if self.playing {
            self.held[1] = self.held[0];
            self.held[0] = self.body.canonical(&mut self.pose);
            if let Some(reason) = self.body.disagreement() {
                self.refusal = Some(reason.to_owned());
                return false;
            }
            self.push(seconds, lost, counters);
        }
        true
    }

    /// Counts a frame of which only the number is told, for it is past.
    pub(super) fn past(&mut self, number: u32, counters: &mut Counters) {
        match self.clock.past(number) {
            Some(When::Doubled) => counters.doubled += 1,
            Some(When::Late { lost }) => counters.overtaken(lost),
            _ => {}
        }
    }

    /// Takes what belongs to the newest frame: the rest of a pose in several bundles, as VMC alone has it.
    fn complete(&mut self, pose: &PoseUpdate, counters: &mut Counters) {
        let adds = self.refusal.is_none() && pose.joints.iter().any(|j| !j.fresh);
        if !adds {
            counters.doubled += 1;
        } else if self.body.take(pose, true) {
            self.rebuild();
        } else if self.playing {
            self.held[0] = self.body.canonical(&mut self.pose);
            self.resampler.amend(&self.pose);
        }
    }

    /// Puts the pose on the grid and turns the frames that completes into rows; `lost` frames before it never came.
    fn push(&mut self, seconds: f64, lost: u64, counters: &mut Counters) {
        let tolerance = self.tolerance(seconds);
        let Self {
            resampler,
            extractor,
            completion,
            tempo,
            limbs,
            gate,
            out,
            pose,
            scratch,
            held,
            scalars_ns,
            ..
        } = self;
        let Some(extractor) = extractor else { return };
        resampler.set_tolerance(tolerance);
        let before = resampler.newest_time();
        // Frames that were sent among those that are completed.
        let sent = 1 + u32::from(resampler.waits());
        let mut newest = None;
        let pushed = resampler.push(seconds, pose, scratch, |grid, frame| {
            let began = Instant::now();
            let frame = still(grid, frame, gate.as_mut(), out);
            row(grid, frame, held, completion.as_mut(), extractor, out, counters);
            if grid.start {
                tempo.reset();
                limbs.reset();
            }
            if let Some(features) = out.rows.last() {
                out.tempo = tempo.push(features);
                let before = if out.rows.len() > 1 {
                    out.limbs
                } else {
                    Default::default()
                };
                out.limbs = limbs.push(features);
                for (now, before) in out.limbs.iter_mut().zip(before) {
                    now.stroke = now.stroke.max(before.stroke);
                }
            }
            newest = Some(grid.index);
            *scalars_ns += began.elapsed().as_nanos() as i64;
        });
        let Some(index) = newest else { return };
        if let Ok(Pushed::Frames { count, .. }) = pushed
            && count > sent
            && (lost > 0 || sent > 1 || before.is_some_and(|b| seconds - b > GAP))
        {
            out.filled += count - sent;
            counters.filled += u64::from(count - sent);
        }
        out.seq = index;
        out.scalars = *extractor.scalars();
        out.valid = extractor.valid();
        let times = self.times(index, seconds, tolerance);
        self.out.set_times(times);
    }

    /// Brings into the caches what the next frame is likely to need; nothing changes.
    pub(super) fn prewarm(&self) {
        if let Some(extractor) = &self.extractor {
            extractor.prewarm();
        }
        self.tempo.prewarm();
    }

    /// The grid frame after the newest as a body that goes on moving would have it; nothing of the stream changes.
    pub(super) fn imagine(&mut self) -> Option<&FrontOutput> {
        let (mut extractor, mut gate) = (self.extractor.clone()?, self.gate.clone());
        let mut completion = self.completion.clone();
        let index = self.out.seq + 1;
        let newest = self.resampler.newest_time()?;
        if !self.resampler.carry_on(index, &mut self.scratch) {
            return None;
        }
        let guess = &mut self.guess;
        guess.rows.clear();
        guess.poses.clear();
        let grid = GridFrame {
            index,
            fraction: 1.0,
            start: false,
        };
        let frame = still(grid, &self.scratch, gate.as_mut(), guess);
        row(
            grid,
            frame,
            &mut [0; 2],
            completion.as_mut(),
            &mut extractor,
            guess,
            &mut Counters::default(),
        );
        guess.seq = index;
        guess.scalars = *extractor.scalars();
        guess.valid = extractor.valid();
        guess.tempo = self.tempo.tempo().after(1.0);
        let times = self.times(index, newest, self.tolerance(newest));
        self.guess.set_times(times);
        Some(&self.guess)
    }

    /// How far (grid steps) a frame's time may be from a grid time to be taken for it.
    fn tolerance(&self, seconds: f64) -> f64 {
        let same = |i: f64| (i * RATE - 1.0).abs() < SAME_RATE.0;
        if self.clock.interval().is_some_and(same) {
            return SAME_RATE.1;
        }
        // VMC sends its seconds as binary32, which after an hour tells quarters of a millisecond.
        let ulp = (seconds.abs() as f32).next_up() - seconds.abs() as f32;
        let coarse = if self.source == Source::Vmc {
            f64::from(ulp) * RATE
        } else {
            0.0
        };
        coarse.clamp(COARSE, COARSEST)
    }

    /// The sender's and the local time of the grid frame `index`; when the one after it is to be expected, and from when
    /// on it is late (seconds). The newest frame is of `seconds`.
    fn times(&self, index: u64, seconds: f64, tolerance: f64) -> [f64; 4] {
        let interval = self.clock.interval().unwrap_or(1.0 / RATE);
        let map = self.clock.map();
        let local = |time: f64| map.local(time) + map.usual();
        let due = self.resampler.time_of(index + 1);
        let frames = ((due - tolerance / RATE - seconds) / interval).ceil().max(1.0);
        let next = seconds + frames * interval;
        // Of a fast source the frame after a lost one is worth waiting for.
        let slack = if 1.1 * interval < 0.5 / RATE {
            1.1 * interval
        } else {
            0.0
        };
        let slack = slack.max(LATE / RATE) + map.jitter().min(MOST_JITTER);
        // A guess from the frame before is better than what comes so much later.
        let late = if next - due > (NEARER * interval).min(LONGEST_WAIT) {
            local(due)
        } else {
            local(next) + slack
        };
        let here = self.resampler.time_of(index);
        [self.clock.sender_time(here), map.local(here), local(next), late]
    }

    /// Ends a datagram that began to be decoded at `began`.
    pub(super) fn finish(&mut self, began: Instant, counters: &mut Counters) -> Option<&FrontOutput> {
        if self.out.rows.is_empty() {
            return None;
        }
        counters.emitted += self.out.rows.len() as u64;
        let nanos = |from: Instant, to: Instant| to.duration_since(from).as_nanos() as i64;
        let now = Instant::now();
        let decoded = self.decoded.unwrap_or(now);
        self.out.stages = Stages {
            decode: nanos(began, decoded),
            resample: (nanos(decoded, now) - self.scalars_ns).max(0),
            scalars: self.scalars_ns,
        };
        Some(&self.out)
    }
}
