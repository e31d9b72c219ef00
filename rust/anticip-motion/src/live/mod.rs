//! The live front end: datagrams in, 50 Hz feature rows out.

mod body;
mod clock;
mod decode;
mod frame_grid;
mod output;
mod playout;
mod row;
mod senders;
mod stage;
mod timemap;

pub use frame_grid::{FRAME, FRAME_NS, FrameGrid, GridPosition};
pub use output::{Counters, FrontOutput, Stages};
pub use playout::Playout;
pub use senders::SenderState;

use std::time::Instant;

use anticip_wire::PROTOCOLS;

use crate::MotionError;
use crate::canonical::JOINT_COUNT;
use crate::features::{FeatureExtractor, RATE};
use senders::Senders;

/// The protocol a front end listens to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Sony mocopi: 27 bones, frames numbered.
    Mocopi,
    /// VMC over OSC: 55 bones at any rate.
    Vmc,
    /// This project's own datagrams: any skeleton at any rate.
    Msgpack,
    /// Another of [`anticip_wire::PROTOCOLS`], by its place there; it tells its skeleton.
    Told(usize),
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
            _ => PROTOCOLS
                .iter()
                .position(|protocol| protocol.name == name)
                .map(Self::Told)
                .ok_or_else(|| MotionError::Option {
                    option: "source",
                    expected: "mocopi, vmc, xsens, rokoko, axis, natnet, vrchat or msgpack",
                    given: format!("{name:?}"),
                }),
        }
    }

    /// Opens its decoder.
    fn open(self) -> Box<dyn anticip_wire::Source> {
        match self {
            Self::Mocopi => Box::<anticip_wire::mocopi::MocopiPacket>::default(),
            Self::Vmc => Box::<anticip_wire::vmc::VmcAssembler>::default(),
            Self::Msgpack => Box::<anticip_wire::native::NativePacket>::default(),
            Self::Told(place) => (PROTOCOLS[place].open)(),
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

/// How a stream keeps time, as measured.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Timing {
    /// Frames a second of local time; `None` before eight frames.
    pub rate: Option<f64>,
    /// Spread (standard deviation) of the frames' delays, milliseconds.
    pub jitter_ms: f64,
    /// How much slower than the local clock the sender's runs, parts per million; 0 before it is known.
    pub drift_ppm: f64,
}

/// Bytes in, feature rows out; one performer, one protocol.
///
/// A datagram is untrusted: whatever is wrong with it is counted, nothing is raised, and no NaN leaves. Of several
/// senders one plays (see [`LiveFront::senders`]). What comes out depends on the player's own numbers and times; on
/// arrivals only where it has none, or where they contradict them.
pub struct LiveFront {
    senders: Senders,
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
        // Refuses a window out of range now, not with the first frame.
        FeatureExtractor::new(&[true; JOINT_COUNT], config.window)?;
        Ok(Self {
            senders: Senders::new(source, config)?,
            counters: Counters::default(),
        })
    }

    /// Takes one datagram of `sender` that arrived at `t_arrival_ns` of the local monotonic clock; `None` where it
    /// completes no frame of the grid, or is not the player's.
    pub fn feed(&mut self, datagram: &[u8], t_arrival_ns: i64, sender: &str) -> Option<&FrontOutput> {
        let began = Instant::now();
        self.counters.packets += 1;
        let session = self
            .senders
            .take(datagram, t_arrival_ns, sender, &mut self.counters)?;
        session.stage.finish(began, &mut self.counters)
    }

    /// The grid frame after the newest, for when its datagram is late: the player's body carried on at the speed that it
    /// has. Nothing of the stream changes. `None` before the first frame.
    pub fn imagine(&mut self) -> Option<&FrontOutput> {
        self.senders.player_mut().stage.imagine()
    }

    /// Brings into the caches what the player's next frame is likely to need; nothing changes.
    pub fn prewarm(&self) {
        self.senders.player().stage.prewarm();
    }

    /// What was counted since the start; of senders that do not play only the datagrams.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Everybody heard of, the player first, then in the order of appearance.
    #[must_use]
    pub fn senders(&self) -> Vec<SenderState> {
        self.senders.states()
    }

    /// Lets only `sender` (a name, or the part of it before the last colon) play from now on; `None`: whoever comes.
    /// True where it was heard of and plays from its next frame on.
    pub fn listen_to(&mut self, sender: Option<&str>) -> bool {
        self.senders.listen_to(sender)
    }

    /// How the player's stream keeps time.
    #[must_use]
    pub fn timing(&self) -> Timing {
        let clock = self.senders.player().stage.clock();
        Timing {
            rate: clock.rate(),
            jitter_ms: clock.map().jitter() * 1e3,
            drift_ppm: clock.map().drift().0 * 1e6,
        }
    }

    /// Why the player's body cannot be played, where it cannot.
    #[must_use]
    pub fn refusal(&self) -> Option<&str> {
        self.senders.player().stage.refusal()
    }

    /// Why something of the player's frames is not played, where that is so.
    #[must_use]
    pub fn left_out(&self) -> Option<&'static str> {
        self.senders.player().left_out()
    }

    /// Which canonical joints the features have, as far as it is known: measured, or solved from few sensors
    /// ([`Completion`](crate::Completion)).
    #[must_use]
    pub fn mask(&self) -> [bool; JOINT_COUNT] {
        self.senders.player().stage.mask()
    }

    /// How sure each joint of the newest frame is: 1 where it is measured, less where it is solved, 0 where there is
    /// none.
    #[must_use]
    pub fn confidence(&self) -> [f32; JOINT_COUNT] {
        self.senders.player().stage.confidence()
    }

    /// The source's joint names; `None` before they are known.
    #[must_use]
    pub fn skeleton(&self) -> Option<&[String]> {
        self.senders.player().stage.names()
    }

    /// Whether the player has told its skeleton, or has none to tell (VMC). Until then a standard body stands in for it.
    #[must_use]
    pub fn has_skeleton(&self) -> bool {
        self.senders.player().stage.has_skeleton()
    }

    /// The jitter of each joint as learned so far, radians; `None` without a noise gate.
    #[must_use]
    pub fn noise(&self) -> Option<[f64; JOINT_COUNT]> {
        self.senders.player().stage.noise()
    }

    /// Forgets the stream, the skeleton and who plays; the counters go on.
    pub fn reset(&mut self) {
        self.senders.reset();
    }
}
