//! One sender's stream: poses in the order of arrival to feature rows on the grid.

use std::time::Instant;

use anticip_wire::{PoseUpdate, SkeletonUpdate};

use super::body::Body;
use super::clock::{Placement, Stamp, StreamClock};
use super::output::{Counters, FrontOutput, Stages};
use super::row::{apply_gate, push_row};
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

/// A longer time between two source frames (seconds) is a gap.
const GAP_S: f64 = 0.1;
/// Tolerance (grid steps) within which a source time is taken for a grid time, so that a 50 Hz source whose clock is
/// rounded to milliseconds need not wait for its next frame.
const MIN_TOLERANCE: f64 = 0.05;
/// Largest tolerance (grid steps) for a clock of low resolution; a larger one would move distinguishable frames.
const MAX_TOLERANCE: f64 = 0.1;
/// Relative difference of the source's interval below which it has the grid's own rate.
const SAME_RATE: f64 = 0.01;
/// Tolerance (grid steps) for a source of the grid's own rate.
const SAME_RATE_TOLERANCE: f64 = 0.25;
/// Larger source times (seconds) are ignored.
const MAX_TIME_S: f64 = 9e9;
/// Part of the grid interval, besides jitter, that a frame may be late before the grid goes on without it.
const LATE: f64 = 0.25;
/// Most jitter (seconds) added to that.
const MAX_JITTER_S: f64 = 0.01;
/// Longest wait for the second of the two source frames around a grid time, as a part of their interval. If the frame
/// is expected later, the grid goes on without it.
const MAX_WAIT: f64 = 0.5;
/// The same in seconds; the shorter wait counts.
const MAX_WAIT_S: f64 = 0.01;

pub(super) struct Stage {
    source: Source,
    config: FrontConfig,
    pub(super) body: Body,
    /// Why the body that the source declared last cannot be played; its frames are then dropped.
    refusal: Option<String>,
    /// False while another sender is active: frames are tracked but not put on the grid.
    pub(super) is_active: bool,
    pub(super) clock: StreamClock,
    resampler: Resampler,
    extractor: Option<FeatureExtractor>,
    /// Solves the joints that a body of few sensors lacks.
    completion: Option<Completion>,
    /// Joints (bit j) whose rotations only encode where other joints are.
    position_only: u32,
    tempo: TempoTracker,
    limbs: LimbTracker,
    gate: Option<NoiseGate>,
    /// Canonical joints (bit j) not measured in the newest frame and in the one before.
    unmeasured: [u32; 2],
    pose: Pose,
    scratch: Pose,
    out: FrontOutput,
    /// The extrapolated frame after the newest.
    extrapolated: FrontOutput,
    /// When decoding ended, set by the first pose of a datagram.
    decoded: Option<Instant>,
    scalars_ns: i64,
}

impl Stage {
    pub(super) fn new(source: Source, config: FrontConfig) -> Result<Self, MotionError> {
        Ok(Self {
            source,
            config,
            refusal: None,
            is_active: false,
            clock: StreamClock::new(),
            resampler: Resampler::new(JOINT_COUNT, RATE, Some(MAX_GAP))?.curved(),
            extractor: None,
            completion: None,
            position_only: 0,
            tempo: TempoTracker::default(),
            limbs: LimbTracker::default(),
            gate: None,
            body: Body::standard(source)?,
            unmeasured: [0; 2],
            pose: Pose::identity(JOINT_COUNT),
            scratch: Pose::identity(JOINT_COUNT),
            out: FrontOutput::default(),
            extrapolated: FrontOutput::default(),
            decoded: None,
            scalars_ns: 0,
        })
    }

    /// Confidence in each joint: 1 if measured, less if solved, 0 if absent.
    pub(super) fn confidence(&self) -> [f32; JOINT_COUNT] {
        let measured = self.body.mask.map(|present| f32::from(u8::from(present)));
        self.completion.as_ref().map_or(measured, |c| *c.confidence())
    }

    /// Joints that the features cover: measured or solved.
    pub(super) fn mask(&self) -> [bool; JOINT_COUNT] {
        if self.completion.is_some() {
            [true; JOINT_COUNT]
        } else {
            self.body.mask
        }
    }

    pub(super) fn noise(&self) -> Option<[f64; JOINT_COUNT]> {
        self.gate.as_ref().map(NoiseGate::noise)
    }

    /// Why the source's body cannot be played, if so.
    pub(super) fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Outputs rows from the next frame on, which starts a stream at grid index `index`.
    pub(super) fn activate(&mut self, index: u64) {
        self.set_active(true);
        self.resampler.restart_at(index);
    }

    /// Only tracks frames from the next one on; returns the grid index of the next row.
    pub(super) fn deactivate(&mut self) -> u64 {
        self.set_active(false);
        self.resampler.next_index()
    }

    fn set_active(&mut self, is_active: bool) {
        self.is_active = is_active;
        self.clock.reset();
        self.rebuild();
    }

    /// Prepares for the next datagram.
    pub(super) fn clear(&mut self) {
        self.out.rows.clear();
        self.out.poses.clear();
        self.out.reset = false;
        self.out.filled = 0;
        self.out.stages = Stages::default();
        self.decoded = None;
        self.scalars_ns = 0;
    }

    /// Takes a skeleton that the source declares.
    pub(super) fn set_skeleton(&mut self, update: &SkeletonUpdate, counters: &mut Counters) {
        self.clock.declare(update.rate);
        match self.body.set_skeleton(update) {
            Ok(changed) => {
                // If the same body is declared again, what is known about it still holds.
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

    /// Sets the joints (bit j) of the following frames whose rotations only encode where other joints are.
    pub(super) fn set_position_only(&mut self, joints: u32) {
        if std::mem::replace(&mut self.position_only, joints) != joints {
            self.rebuild();
        }
    }

    /// Starts a new stream of features after a change of the body or its mask.
    fn rebuild(&mut self) {
        self.resampler.restart();
        self.completion = match self.position_only {
            0 => Completion::new(&self.body.mask),
            joints => Completion::with_position_only(&self.body.mask, joints),
        };
        self.extractor = FeatureExtractor::new(&self.mask(), self.config.window).ok();
        let gate = || NoiseGate::new(&self.body.mask, self.config.noise.as_ref());
        self.gate = self.config.steady.then(gate);
    }

    /// Takes one pose. Returns true if it is a new frame of the stream.
    pub(super) fn push_frame(&mut self, pose: &PoseUpdate, arrival_ns: i64, counters: &mut Counters) -> bool {
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
            time: pose.time.filter(|t| t.abs() < MAX_TIME_S),
            arrival: arrival_ns as f64 * 1e-9,
        };
        let mut placement = self.clock.take(stamp);
        if placement == Placement::Doubled && self.clock.number_is_stuck(pose) {
            placement = self.clock.take(stamp);
        }
        let (seconds, lost, starts) = match placement {
            Placement::Next {
                seconds,
                lost,
                starts,
            } => (seconds, lost, starts),
            Placement::Same => {
                self.complete(pose, counters);
                return false;
            }
            Placement::Doubled => {
                counters.doubled += 1;
                return false;
            }
            Placement::Late { lost } => {
                counters.count_late(lost);
                return false;
            }
            Placement::Strange => {
                counters.strange += 1;
                return false;
            }
        };
        counters.lost += lost;
        if starts {
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
        if self.is_active {
            self.unmeasured[1] = self.unmeasured[0];
            self.unmeasured[0] = self.body.canonical(&mut self.pose);
            if let Some(reason) = self.body.disagreement() {
                self.refusal = Some(reason.to_owned());
                return false;
            }
            self.push_to_grid(seconds, lost, counters);
        }
        true
    }

    /// Counts a frame of an earlier number that came without its pose.
    pub(super) fn count_late(&mut self, number: u32, counters: &mut Counters) {
        match self.clock.classify_past(number) {
            Some(Placement::Doubled) => counters.doubled += 1,
            Some(Placement::Late { lost }) => counters.count_late(lost),
            _ => {}
        }
    }

    /// Adds to the newest frame: the rest of a pose that is split over several bundles, which only VMC does.
    fn complete(&mut self, pose: &PoseUpdate, counters: &mut Counters) {
        let adds = self.refusal.is_none() && pose.joints.iter().any(|j| !j.fresh);
        if !adds {
            counters.doubled += 1;
        } else if self.body.take(pose, true) {
            self.rebuild();
        } else if self.is_active {
            self.unmeasured[0] = self.body.canonical(&mut self.pose);
            self.resampler.amend(&self.pose);
        }
    }

    /// Puts the pose on the grid and turns the completed grid frames into rows; `lost` frames before it never came.
    fn push_to_grid(&mut self, seconds: f64, lost: u64, counters: &mut Counters) {
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
            unmeasured,
            scalars_ns,
            ..
        } = self;
        let Some(extractor) = extractor else { return };
        resampler.set_tolerance(tolerance);
        let before = resampler.newest_time();
        // Source frames among the grid frames that are completed.
        let sent = 1 + u32::from(resampler.has_pending());
        let mut newest = None;
        let pushed = resampler.push(seconds, pose, scratch, |grid, frame| {
            let started = Instant::now();
            let frame = apply_gate(grid, frame, gate.as_mut(), out);
            push_row(
                grid,
                frame,
                unmeasured,
                completion.as_mut(),
                extractor,
                out,
                counters,
            );
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
            *scalars_ns += started.elapsed().as_nanos() as i64;
        });
        let Some(index) = newest else { return };
        if let Ok(Pushed::Frames { count, .. }) = pushed
            && count > sent
            && (lost > 0 || sent > 1 || before.is_some_and(|b| seconds - b > GAP_S))
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

    /// Loads into the CPU caches what the next frame is likely to need.
    pub(super) fn prewarm(&self) {
        if let Some(extractor) = &self.extractor {
            extractor.prewarm();
        }
        self.tempo.prewarm();
    }

    /// Extrapolates the grid frame after the newest; the stream is not changed.
    pub(super) fn extrapolate(&mut self) -> Option<&FrontOutput> {
        let (mut extractor, mut gate) = (self.extractor.clone()?, self.gate.clone());
        let mut completion = self.completion.clone();
        let index = self.out.seq + 1;
        let newest = self.resampler.newest_time()?;
        if !self.resampler.extrapolate(index, &mut self.scratch) {
            return None;
        }
        let out = &mut self.extrapolated;
        out.rows.clear();
        out.poses.clear();
        let grid = GridFrame {
            index,
            fraction: 1.0,
            start: false,
        };
        let frame = apply_gate(grid, &self.scratch, gate.as_mut(), out);
        push_row(
            grid,
            frame,
            &mut [0; 2],
            completion.as_mut(),
            &mut extractor,
            out,
            &mut Counters::default(),
        );
        out.seq = index;
        out.scalars = *extractor.scalars();
        out.valid = extractor.valid();
        out.tempo = self.tempo.tempo().after(1.0);
        let times = self.times(index, newest, self.tolerance(newest));
        self.extrapolated.set_times(times);
        Some(&self.extrapolated)
    }

    /// Tolerance (grid steps) within which a frame's time is taken for a grid time.
    fn tolerance(&self, seconds: f64) -> f64 {
        let is_same_rate = |interval: f64| (interval * RATE - 1.0).abs() < SAME_RATE;
        if self.clock.interval().is_some_and(is_same_rate) {
            return SAME_RATE_TOLERANCE;
        }
        // VMC sends seconds as binary32, whose resolution after an hour is a quarter of a millisecond.
        let ulp = (seconds.abs() as f32).next_up() - seconds.abs() as f32;
        let resolution = if self.source == Source::Vmc {
            f64::from(ulp) * RATE
        } else {
            0.0
        };
        resolution.clamp(MIN_TOLERANCE, MAX_TOLERANCE)
    }

    /// Returns four times (seconds): of the grid frame `index` in the sender's clock and in the local one, then the
    /// local times at which the next grid frame is expected and from which on it is late. `seconds` is the newest
    /// frame's.
    fn times(&self, index: u64, seconds: f64, tolerance: f64) -> [f64; 4] {
        let interval = self.clock.interval().unwrap_or(1.0 / RATE);
        let map = self.clock.map();
        let local = |time: f64| map.local(time) + map.usual_delay();
        let due = self.resampler.time_of(index + 1);
        let frames = ((due - tolerance / RATE - seconds) / interval).ceil().max(1.0);
        let next = seconds + frames * interval;
        // With a fast source the frame after a lost one is worth waiting for.
        let slack = if 1.1 * interval < 0.5 / RATE {
            1.1 * interval
        } else {
            0.0
        };
        let slack = slack.max(LATE / RATE) + map.jitter().min(MAX_JITTER_S);
        // If the next frame comes much later, an extrapolation of the one before is better.
        let late = if next - due > (MAX_WAIT * interval).min(MAX_WAIT_S) {
            local(due)
        } else {
            local(next) + slack
        };
        let here = self.resampler.time_of(index);
        [self.clock.sender_time(here), map.local(here), local(next), late]
    }

    /// Ends a datagram whose decoding started at `started`.
    pub(super) fn finish(&mut self, started: Instant, counters: &mut Counters) -> Option<&FrontOutput> {
        if self.out.rows.is_empty() {
            return None;
        }
        counters.emitted += self.out.rows.len() as u64;
        let nanos = |from: Instant, to: Instant| to.duration_since(from).as_nanos() as i64;
        let now = Instant::now();
        let decoded = self.decoded.unwrap_or(now);
        self.out.stages = Stages {
            decode: nanos(started, decoded),
            resample: (nanos(decoded, now) - self.scalars_ns).max(0),
            scalars: self.scalars_ns,
        };
        Some(&self.out)
    }
}
