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
use crate::error::check;
use crate::features::{FeatureExtractor, RATE};
use senders::Senders;

/// The protocol that a front end decodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Sony mocopi: 27 bones, numbered frames.
    Mocopi,
    /// VMC over OSC: 55 bones at any rate.
    Vmc,
    /// This project's own datagrams: any skeleton at any rate.
    Msgpack,
    /// Another protocol that declares its skeleton; the index into [`anticip_wire::PROTOCOLS`].
    Other(usize),
}

impl Source {
    /// Returns the source called `name`.
    ///
    /// # Errors
    /// An unknown name.
    pub fn from_name(name: &str) -> Result<Self, MotionError> {
        match name {
            "mocopi" => Ok(Self::Mocopi),
            "vmc" => Ok(Self::Vmc),
            "msgpack" => Ok(Self::Msgpack),
            _ => PROTOCOLS
                .iter()
                .position(|protocol| protocol.name == name)
                .map(Self::Other)
                .ok_or_else(|| MotionError::Option {
                    option: "source",
                    expected: "mocopi, vmc, xsens, rokoko, axis, natnet, vrchat or msgpack",
                    given: format!("{name:?}"),
                }),
        }
    }

    /// Creates the decoder of this protocol.
    fn open(self) -> Box<dyn anticip_wire::Source> {
        match self {
            Self::Mocopi => Box::<anticip_wire::mocopi::MocopiDecoder>::default(),
            Self::Vmc => Box::<anticip_wire::vmc::VmcAssembler>::default(),
            Self::Msgpack => Box::<anticip_wire::native::NativeDecoder>::default(),
            Self::Other(index) => (PROTOCOLS[index].open)(),
        }
    }
}

/// Options of a front end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FrontConfig {
    /// Grid rate in frames a second; features v1 are defined at 50 only.
    pub rate: f64,
    /// Window of the seven scalars, in frames.
    pub window: usize,
    /// Whether a noise gate holds the pose of a body that stands still.
    pub steady: bool,
    /// Known jitter of each joint; see [`NoiseGate::new`](crate::NoiseGate::new).
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

/// Measured timing of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Timing {
    /// Frames a second of local time; `None` before eight frames.
    pub rate: Option<f64>,
    /// Standard deviation of the frames' delays, milliseconds.
    pub jitter_ms: f64,
    /// How much slower the sender's clock runs than the local one, parts per million; 0 while unknown.
    pub drift_ppm: f64,
}

/// Turns datagrams into feature rows, for one performer and one protocol.
///
/// Datagrams are untrusted: a bad one is counted and never causes an error, and no NaN is output. Of several senders
/// one is active, i.e. played (see [`LiveFront::senders`]). The output depends on the active sender's own frame
/// numbers and times, and on arrivals only where it has none or where they contradict them.
pub struct LiveFront {
    senders: Senders,
    counters: Counters,
}

impl LiveFront {
    /// Creates a front end for `source`.
    ///
    /// # Errors
    /// A rate other than 50 or a window that the scalars refuse.
    pub fn new(source: Source, config: FrontConfig) -> Result<Self, MotionError> {
        let expected = "50 (the grid that features v1 are defined on)";
        check(config.rate == RATE, "rate", expected, config.rate)?;
        // Reports an invalid window now and not with the first frame.
        FeatureExtractor::new(&[true; JOINT_COUNT], config.window)?;
        Ok(Self {
            senders: Senders::new(source, config)?,
            counters: Counters::default(),
        })
    }

    /// Takes one datagram of `sender` that arrived at `t_arrival_ns` of the local monotonic clock. Returns `None` if
    /// it completes no grid frame or is not from the active sender.
    pub fn feed(&mut self, datagram: &[u8], t_arrival_ns: i64, sender: &str) -> Option<&FrontOutput> {
        let started = Instant::now();
        self.counters.packets += 1;
        let session = self
            .senders
            .receive(datagram, t_arrival_ns, sender, &mut self.counters)?;
        session.stage.finish(started, &mut self.counters)
    }

    /// Extrapolates the grid frame after the newest, for use while its datagram is late. The stream is not changed.
    /// `None` before the first frame.
    pub fn extrapolate(&mut self) -> Option<&FrontOutput> {
        self.senders.active_mut().stage.extrapolate()
    }

    /// Loads into the CPU caches what the active sender's next frame is likely to need.
    pub fn prewarm(&self) {
        self.senders.active().stage.prewarm();
    }

    /// Counts since the start. Of senders that are not active only the datagrams are counted.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// All known senders: the active one first, then in the order of appearance.
    #[must_use]
    pub fn senders(&self) -> Vec<SenderState> {
        self.senders.states()
    }

    /// Restricts the front end to `sender` (a name, or the host before the last colon); `None` allows any sender.
    /// Returns true if the sender is known and is active from its next frame on.
    pub fn listen_to(&mut self, sender: Option<&str>) -> bool {
        self.senders.listen_to(sender)
    }

    /// Measured timing of the active sender's stream.
    #[must_use]
    pub fn timing(&self) -> Timing {
        let clock = &self.senders.active().stage.clock;
        Timing {
            rate: clock.rate(),
            jitter_ms: clock.map().jitter() * 1e3,
            drift_ppm: clock.map().drift().0 * 1e6,
        }
    }

    /// Why the active sender's body cannot be played, if so.
    #[must_use]
    pub fn refusal(&self) -> Option<&str> {
        self.senders.active().stage.refusal()
    }

    /// Why part of the active sender's data is not played, if so.
    #[must_use]
    pub fn unplayed_reason(&self) -> Option<&'static str> {
        self.senders.active().unplayed_reason()
    }

    /// Canonical joints that the features cover, as far as known: measured, or solved from few sensors
    /// ([`Completion`](crate::Completion)).
    #[must_use]
    pub fn mask(&self) -> [bool; JOINT_COUNT] {
        self.senders.active().stage.mask()
    }

    /// Confidence in each joint of the newest frame: 1 if measured, less if solved, 0 if absent.
    #[must_use]
    pub fn confidence(&self) -> [f32; JOINT_COUNT] {
        self.senders.active().stage.confidence()
    }

    /// The source's joint names; `None` while unknown.
    #[must_use]
    pub fn skeleton(&self) -> Option<&[String]> {
        self.senders.active().stage.body.names()
    }

    /// Whether the active sender has declared its skeleton, or never does (VMC). Until then a standard body is used.
    #[must_use]
    pub fn has_skeleton(&self) -> bool {
        self.senders.active().stage.body.is_declared
    }

    /// Learned jitter of each joint, radians; `None` without a noise gate.
    #[must_use]
    pub fn noise(&self) -> Option<[f64; JOINT_COUNT]> {
        self.senders.active().stage.noise()
    }

    /// Forgets the stream, the skeleton and the active sender; the counters are kept.
    pub fn reset(&mut self) {
        self.senders.reset();
    }
}
