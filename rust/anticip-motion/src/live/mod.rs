//! The live front end: datagrams in, 50 Hz feature rows out.

mod body;
mod decode;
mod output;
mod stage;

pub use output::{Counters, FrontOutput, Stages};

use std::time::Instant;

use crate::MotionError;
use crate::canonical::JOINT_COUNT;
use crate::features::RATE;
use decode::Decoder;
use stage::Stage;

/// The protocol a front end listens to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Sony mocopi: 27 bones at 50 Hz, frames numbered.
    Mocopi,
    /// VMC over OSC: 55 bones at any rate.
    Vmc,
    /// This project's own datagrams: any skeleton at any rate.
    Msgpack,
}

impl Source {
    /// The source called `name`.
    ///
    /// # Errors
    /// A name that is none.
    pub fn from_name(name: &str) -> Result<Self, MotionError> {
        match name {
            "mocopi" => Ok(Self::Mocopi),
            "vmc" => Ok(Self::Vmc),
            "msgpack" => Ok(Self::Msgpack),
            _ => Err(MotionError::Option {
                option: "source",
                expected: "mocopi, vmc or msgpack",
                given: format!("{name:?}"),
            }),
        }
    }
}

/// What a front end can be told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FrontConfig {
    /// Frames a second; features v1 are defined at 50.
    pub rate: f64,
    /// Window of the seven scalars in frames.
    pub window: usize,
    /// Whether a noise gate holds the pose of a body that stands still.
    pub steady: bool,
    /// What is known of each joint's jitter; see [`NoiseGate::new`](crate::NoiseGate::new).
    pub noise: Option<[f64; JOINT_COUNT]>,
}

impl Default for FrontConfig {
    fn default() -> Self {
        Self {
            rate: RATE,
            window: 256,
            steady: false,
            noise: None,
        }
    }
}

/// Bytes in, feature rows out; one performer, one protocol.
///
/// A datagram is untrusted: whatever is wrong with it is counted, nothing is raised, and no NaN leaves. What comes out
/// depends on the source's own numbers and times only, never on when its datagrams arrive, as long as it has them.
pub struct LiveFront {
    decoder: Decoder,
    stage: Stage,
    counters: Counters,
}

impl LiveFront {
    /// A front end for `source`.
    ///
    /// # Errors
    /// A rate other than 50 or a window that the scalars refuse.
    pub fn new(source: Source, config: FrontConfig) -> Result<Self, MotionError> {
        if config.rate != RATE {
            return Err(MotionError::Option {
                option: "rate",
                expected: "50 (the grid that features v1 are defined on)",
                given: config.rate.to_string(),
            });
        }
        Ok(Self {
            decoder: Decoder::new(source),
            stage: Stage::new(source, config)?,
            counters: Counters::default(),
        })
    }

    /// Takes one datagram that arrived at `t_arrival_ns` of the local monotonic clock; `None` where it completes no
    /// frame of the grid.
    pub fn feed(&mut self, datagram: &[u8], t_arrival_ns: i64) -> Option<&FrontOutput> {
        let began = Instant::now();
        self.counters.packets += 1;
        self.stage.clear();
        self.decoder
            .decode(datagram, t_arrival_ns, &mut self.stage, &mut self.counters);
        self.stage.finish(began, &mut self.counters)
    }

    /// What was counted since the start.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Which canonical joints the source has, as far as it is known.
    #[must_use]
    pub fn mask(&self) -> &[bool; JOINT_COUNT] {
        self.stage.mask()
    }

    /// The source's joint names; `None` before they are known.
    #[must_use]
    pub fn skeleton(&self) -> Option<&[String]> {
        self.stage.names()
    }

    /// The jitter of each joint as learned so far, radians; `None` without a noise gate.
    #[must_use]
    pub fn noise(&self) -> Option<[f64; JOINT_COUNT]> {
        self.stage.noise()
    }

    /// Forgets the stream and the skeleton; the counters go on.
    pub fn reset(&mut self) {
        self.decoder.reset();
        self.stage.reset();
    }
}
