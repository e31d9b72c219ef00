//! From poses in the order of arrival to feature rows on the grid.

use std::time::Instant;

use anticip_wire::{PoseUpdate, SkeletonUpdate};

use super::body::Body;
use super::output::{Counters, FrontOutput, Stages};
use super::{FrontConfig, Source};
use crate::MotionError;
use crate::canonical::JOINT_COUNT;
use crate::features::{FEATURE_COUNT, FeatureExtractor, RATE};
use crate::noise::NoiseGate;
use crate::resample::{GridFrame, MAX_GAP, Pose, Pushed, Resampler};
use crate::sequence::{Numbers, Order, Times};
use crate::timemap::TimeMap;

/// A declared rate this close to the grid's is the grid's: its frame numbers are grid indices.
const SAME_RATE: f64 = 0.25;
/// A source slower than this between two frames (seconds) has left a gap.
const GAP: f64 = 0.1;
/// So many frames with one and the same time: the source's clock stands still and is not used.
const STUCK: u32 = 25;
/// How far a source's time may be from a grid time (grid steps) to be taken for it: a source of 50 Hz whose clock is
/// rounded to milliseconds is not to wait for its next frame.
const COARSE: f64 = 0.05;
/// Times beyond this (seconds) are no times.
const ENDLESS: f64 = 9e9;

/// A frame's own number and time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    pub(super) number: Option<u32>,
    pub(super) seconds: Option<f64>,
}

/// Where a frame belongs.
enum Place {
    /// At this time of the resampler (seconds), with this time of the source's clock.
    At { seconds: f64, source: f64 },
    /// To the newest frame, which it completes.
    Newest,
    /// Nowhere: counted and dropped.
    Nowhere,
}

pub(super) struct Stage {
    source: Source,
    config: FrontConfig,
    body: Body,
    /// True when the source's frame numbers are grid indices.
    numbered: bool,
    numbers: Numbers,
    times: Times,
    /// True while the source's clock is missing or was found standing still.
    by_arrival: bool,
    stuck: u32,
    /// Source time and arrival of the newest frame.
    newest: (f64, i64),
    map: TimeMap,
    resampler: Resampler,
    extractor: Option<FeatureExtractor>,
    gate: Option<NoiseGate>,
    /// Canonical joints not measured in the newest frame, and in the one before.
    held: [u32; 2],
    pose: Pose,
    scratch: Pose,
    out: FrontOutput,
    /// When decoding ended; the first pose of a datagram stamps it.
    decoded: Option<Instant>,
    scalars_ns: i64,
}

impl Stage {
    pub(super) fn new(source: Source, config: FrontConfig) -> Result<Self, MotionError> {
        let body = Body::standard(source)?;
        // Refuses a window out of range now, not with the first frame.
        let extractor = FeatureExtractor::new(&[true; JOINT_COUNT], config.window)?;
        Ok(Self {
            source,
            config,
            numbered: source == Source::Mocopi,
            numbers: Numbers::default(),
            times: Times::default(),
            by_arrival: false,
            stuck: 0,
            newest: (0.0, 0),
            map: TimeMap::new(),
            resampler: Resampler::new(JOINT_COUNT, RATE, Some(MAX_GAP))?,
            extractor: (*body.mask() == [true; JOINT_COUNT]).then_some(extractor),
            gate: gate_for(config, body.mask()),
            body,
            held: [0; 2],
            pose: Pose::identity(JOINT_COUNT),
            scratch: Pose::identity(JOINT_COUNT),
            out: FrontOutput {
                rows: Vec::with_capacity(MAX_GAP as usize + 1),
                reset: false,
                seq: 0,
                t_source_ns: 0,
                t_local_ns: 0,
                scalars: [0.0; 7],
                pose: [[1.0, 0.0, 0.0, 0.0]; JOINT_COUNT],
                root: [0.0; 3],
                activity: 1.0,
                filled: 0,
                valid: true,
                stages: Stages::default(),
            },
            decoded: None,
            scalars_ns: 0,
        })
    }

    pub(super) fn mask(&self) -> &[bool; JOINT_COUNT] {
        self.body.mask()
    }

    pub(super) fn noise(&self) -> Option<[f64; JOINT_COUNT]> {
        self.gate.as_ref().map(NoiseGate::noise)
    }

    pub(super) fn names(&self) -> Option<&[String]> {
        self.body.told().then(|| self.body.names())
    }

    /// Forgets the stream, keeping the body.
    fn restart(&mut self) {
        self.numbers.reset();
        self.times.reset();
        self.by_arrival = false;
        self.stuck = 0;
        self.map.reset();
        self.resampler.restart();
    }

    pub(super) fn reset(&mut self) {
        self.restart();
        self.resampler.reset();
        self.numbered = self.source == Source::Mocopi;
        if let Ok(body) = Body::standard(self.source) {
            self.extractor = FeatureExtractor::new(body.mask(), self.config.window).ok();
            self.gate = gate_for(self.config, body.mask());
            self.body = body;
        }
    }

    /// Begins a datagram.
    pub(super) fn clear(&mut self) {
        self.out.rows.clear();
        self.out.reset = false;
        self.out.filled = 0;
        self.out.stages = Stages::default();
        self.decoded = None;
        self.scalars_ns = 0;
    }

    /// Takes a skeleton the source tells.
    pub(super) fn skeleton(&mut self, update: &SkeletonUpdate, counters: &mut Counters) {
        let same_rate = update.rate.is_some_and(|r| (r - RATE).abs() <= SAME_RATE);
        let numbered = self.source == Source::Mocopi || same_rate;
        match self.body.tell(update) {
            Ok(changed) => {
                if numbered != self.numbered {
                    self.numbered = numbered;
                    self.restart();
                }
                if changed {
                    self.rebuild();
                }
            }
            Err(_) => counters.malformed += 1,
        }
    }

    /// The body or its mask is another one: what follows is a new stream of features.
    fn rebuild(&mut self) {
        self.resampler.restart();
        self.extractor = FeatureExtractor::new(self.body.mask(), self.config.window).ok();
        self.gate = gate_for(self.config, self.body.mask());
    }

    /// Takes one pose.
    pub(super) fn frame(
        &mut self,
        pose: &PoseUpdate,
        clock: Clock,
        arrival_ns: i64,
        counters: &mut Counters,
    ) {
        if self.decoded.is_none() {
            self.decoded = Some(Instant::now());
        }
        let clock = Clock {
            seconds: clock.seconds.filter(|t| t.abs() < ENDLESS),
            ..clock
        };
        if !self.body.fits(pose) || (self.numbered && clock.number.is_none()) {
            counters.malformed += 1;
            return;
        }
        let place = if self.numbered {
            self.place_by_number(clock, counters)
        } else {
            self.place_by_time(pose, clock, arrival_ns, counters)
        };
        match place {
            Place::Nowhere => {}
            Place::Newest => {
                if self.body.take(pose, true) {
                    self.rebuild();
                    return;
                }
                self.held[0] = self.body.canonical(&mut self.pose);
                self.resampler.amend(&self.pose);
            }
            Place::At { seconds, source } => {
                counters.frames += 1;
                if self.body.take(pose, false) {
                    self.rebuild();
                }
                let source_ns = (source * 1e9) as i64;
                self.map.push(source_ns, arrival_ns);
                self.newest = (seconds, arrival_ns);
                self.held[1] = self.held[0];
                self.held[0] = self.body.canonical(&mut self.pose);
                self.push(seconds, source - seconds, counters);
            }
        }
    }

    /// A numbered source's frame number is the grid.
    fn place_by_number(&mut self, clock: Clock, counters: &mut Counters) -> Place {
        let Some(number) = clock.number else {
            return Place::Nowhere;
        };
        match self.numbers.take(number, clock.seconds) {
            Order::First => {
                self.resampler.restart();
                self.map.reset();
            }
            Order::Next { lost } => counters.lost += lost,
            Order::Doubled => {
                counters.doubled += 1;
                return Place::Nowhere;
            }
            Order::Late => {
                // It was counted as lost when the newer one came.
                counters.lost = counters.lost.saturating_sub(1);
                counters.late += 1;
                counters.reordered += 1;
                return Place::Nowhere;
            }
        }
        let seconds = self.numbers.position() as f64 / RATE;
        Place::At {
            seconds,
            source: clock.seconds.unwrap_or(seconds),
        }
    }

    /// Any other source's frames lie at the times it gives, or at their arrival where it gives none.
    fn place_by_time(
        &mut self,
        pose: &PoseUpdate,
        clock: Clock,
        arrival_ns: i64,
        counters: &mut Counters,
    ) -> Place {
        let arrival = arrival_ns as f64 * 1e-9;
        let timed = clock.seconds.is_some() && self.stuck < STUCK;
        if self.by_arrival && timed {
            // It has a clock after all.
            self.times.reset();
        }
        if self.times.is_new() {
            self.by_arrival = !timed;
        }
        let seconds = match clock.seconds {
            _ if self.by_arrival => arrival,
            Some(seconds) => seconds,
            // A bundle without a time belongs to the one before it.
            None => self.newest.0,
        };
        match self.times.take(seconds) {
            Order::First => {
                self.resampler.restart();
                self.map.reset();
                // A frame number that jumps with the time says nothing about lost ones.
                self.numbers.reset();
            }
            Order::Next { .. } if self.by_arrival => {}
            Order::Next { .. } => self.stuck = 0,
            Order::Doubled => {
                self.stuck = (self.stuck + 1).min(STUCK);
                if self.stuck == STUCK && !self.by_arrival {
                    // From the next frame on by arrival.
                    self.times.reset();
                    return Place::Nowhere;
                }
                let adds = pose.joints.len() > pose.joints.iter().filter(|j| j.fresh).count();
                if self.source == Source::Vmc && adds {
                    return Place::Newest;
                }
                counters.doubled += 1;
                return Place::Nowhere;
            }
            Order::Late => {
                counters.reordered += 1;
                let passed = self.resampler.passed(seconds);
                counters.late += u64::from(passed);
                if let Some(number) = clock.number
                    && self.numbers.take(number, None) == Order::Late
                {
                    counters.lost = counters.lost.saturating_sub(1);
                }
                return Place::Nowhere;
            }
        }
        if let Some(number) = clock.number
            && let Order::Next { lost } = self.numbers.take(number, None)
        {
            counters.lost += lost;
        }
        Place::At {
            seconds,
            source: seconds,
        }
    }

    /// Puts the pose on the grid and turns the frames that completes into rows. `shift` is what the source's clock
    /// is ahead of the resampler's.
    fn push(&mut self, seconds: f64, shift: f64, counters: &mut Counters) {
        let Self {
            resampler,
            extractor,
            gate,
            out,
            pose,
            scratch,
            held,
            scalars_ns,
            ..
        } = self;
        let Some(extractor) = extractor else { return };
        // VMC sends its seconds as binary32, which after an hour tells quarters of a millisecond.
        let ulp = (seconds.abs() as f32).next_up() - seconds.abs() as f32;
        let coarse = if self.source == Source::Vmc {
            f64::from(ulp) * RATE
        } else {
            0.0
        };
        resampler.set_tolerance(coarse.max(COARSE));
        let before = resampler.newest_time();
        let mut newest = None;
        let pushed = resampler.push(seconds, pose, scratch, |grid, frame| {
            let began = Instant::now();
            let frame = still(grid, frame, gate.as_mut(), out);
            row(grid, frame, held, extractor, out, counters);
            newest = Some(grid.index);
            *scalars_ns += began.elapsed().as_nanos() as i64;
        });
        let Some(index) = newest else { return };
        if let Ok(Pushed::Frames { count, .. }) = pushed
            && count > 1
            && (self.numbered || before.is_some_and(|b| seconds - b > GAP))
        {
            out.filled += count - 1;
            counters.filled += u64::from(count - 1);
        }
        out.seq = index;
        out.t_source_ns = ((resampler.time_of(index) + shift) * 1e9) as i64;
        out.t_local_ns = self.map.local(out.t_source_ns);
        out.scalars = *extractor.scalars();
        out.valid = extractor.valid();
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

/// The noise gate of a body with these joints, where one is wanted.
fn gate_for(config: FrontConfig, mask: &[bool; JOINT_COUNT]) -> Option<NoiseGate> {
    config.steady.then(|| NoiseGate::new(mask, config.noise.as_ref()))
}

/// The grid frame behind the noise gate.
fn still<'a>(
    grid: GridFrame,
    frame: &'a Pose,
    gate: Option<&'a mut NoiseGate>,
    out: &mut FrontOutput,
) -> &'a Pose {
    let Some(gate) = gate else { return frame };
    if grid.start {
        gate.restart();
    }
    gate.push(frame);
    out.activity = gate.openness() as f32;
    gate.pose()
}

/// Turns one grid frame into a feature row.
fn row(
    grid: GridFrame,
    frame: &Pose,
    held: &mut [u32; 2],
    extractor: &mut FeatureExtractor,
    out: &mut FrontOutput,
    counters: &mut Counters,
) {
    if grid.start {
        // Rows of the same datagram before this one belong to a stream that is over.
        out.rows.clear();
        out.filled = 0;
        out.reset = true;
        counters.resets += 1;
        extractor.reset();
        held[1] = held[0];
    }
    // Rounded once, here: what leaves is what the features were made of.
    for (slot, q) in out.pose.iter_mut().zip(&frame.rotations) {
        *slot = q.to_array().map(|v| v as f32);
    }
    out.root = frame.root.map(|v| v as f32);
    let missing = if grid.fraction >= 1.0 {
        held[0]
    } else {
        held[0] | held[1]
    };
    let mut features = [0.0; FEATURE_COUNT];
    extractor.push(&out.pose, out.root, missing, &mut features);
    out.rows.push(features);
}
