//! Between model and sinks: lead, fallback, gain, smoothing, shapes, silence, the performer's hand, and the events.
//!
//! No change of mode or mapping, no late model and no lost signal makes an output jump.

use crate::EVENT_COUNT;
use crate::channel::{Channel, Mode};
use crate::crossfade::Crossfade;
use crate::events::{Event, Trigger};
use crate::presence::Silence;
use crate::shaping::Shaper;
use crate::shared::Shared;
use crate::smoothing::Smoothing;
use crate::vectors::{
    BIN_MS, Forecast, HORIZONS_MS, LOUDNESS, PARAMETER_COUNT, Parameters, Reach, SCALAR_COUNT, at_lead,
    scalar_mapping,
};

/// Seconds in which another giver of the target takes over.
const SWITCH: f64 = 0.25;

/// What the model says of a frame, and how it is to be read.
#[derive(Debug, Clone)]
pub struct ModelOutputWithLeads<'a> {
    /// Parameters at the horizons.
    pub forecast: Forecast,
    /// Of each event; at least a bin each.
    pub hazards: [Vec<f64>; EVENT_COUNT],
    /// The commitment gate.
    pub gate: f64,
    /// How far ahead each parameter is read, ms.
    pub leads_ms: Parameters,
    /// How far ahead what is announced must be, ms.
    pub way_ms: f64,
    /// The performer's range.
    pub reaches: &'a [Reach],
}

/// What goes out: the eight, and the events; what is taught besides is [`Desk::extras`].
pub type Out = (Parameters, Vec<Event>);

/// Control values of one performer.
#[derive(Debug, Clone)]
pub struct Desk {
    /// Factor on loudness.
    pub gain: f64,
    /// The scalars play instead of the model, and instead of a mapping.
    pub bypass: bool,
    main: Channel,
    extra: Option<Channel>,
    extras: Vec<f64>,
    trigger: Trigger,
    switch: Crossfade,
    target: Parameters,
    // What the last frame asked for, before the forecast took over, and whether the body moved in it.
    asked: Parameters,
    activity: f64,
    // Events that were announced and have not come, with the seconds left.
    announced: Vec<(usize, f64)>,
    // Who gives the target: whether the model steps, and whether a mapping speaks.
    by: Option<(bool, bool)>,
    // Where each taught output goes: among the eight, or (None) beside them.
    places: Vec<Option<usize>>,
    held: Vec<f64>,
}

impl Desk {
    /// A setting a parameter; it begins at neutral.
    #[must_use]
    pub fn new(
        smoothing: [Smoothing; PARAMETER_COUNT],
        silence: Silence,
        neutral: Parameters,
        trigger: Trigger,
    ) -> Self {
        Self {
            gain: 1.0,
            bypass: false,
            main: Channel::new(smoothing.to_vec(), silence, &neutral),
            extra: None,
            extras: Vec::new(),
            trigger,
            switch: Crossfade::new(SWITCH),
            target: neutral,
            asked: neutral,
            activity: 1.0,
            announced: Vec::new(),
            by: None,
            places: Vec::new(),
            held: Vec::new(),
        }
    }

    /// Plays taught outputs from the next frame on.
    ///
    /// `places` are where they go among the eight, None beside them; of the latter there is a setting, a neutral
    /// value and one to go on from each.
    pub fn set_mapping(
        &mut self,
        places: Vec<Option<usize>>,
        smoothing: Vec<Smoothing>,
        neutral: &[f64],
        from: &[f64],
    ) {
        self.places = places;
        self.extras = from.to_vec();
        self.held = from.to_vec();
        self.extra = (!neutral.is_empty()).then(|| {
            let mut channel = Channel::new(smoothing, self.main.silence_settings(), neutral);
            channel.smoother.set_amount(self.main.smoother.amount());
            channel.begin(from);
            channel.set_mode(self.main.mode());
            channel
        });
        if self.by.is_some() {
            self.switch.start(&self.target);
        }
    }

    /// How many values a mapping gives.
    #[must_use]
    pub fn mapping_len(&self) -> usize {
        self.places.len()
    }

    /// The taught outputs that are none of the eight, as they were given last.
    #[must_use]
    pub fn extras(&self) -> &[f64] {
        &self.extras
    }

    /// Shapes by these, each with its place among the eight, or among the taught outputs beside them.
    pub fn shape(&mut self, main: Vec<(usize, Shared<Shaper>)>, extra: Vec<(usize, Shared<Shaper>)>) {
        self.main.shape(main);
        if let Some(channel) = &mut self.extra {
            channel.shape(extra);
        }
    }

    /// Smooths the eight, and what is taught beside them, otherwise from the next frame on.
    pub fn resmooth(&mut self, main: [Smoothing; PARAMETER_COUNT], extra: Vec<Smoothing>) {
        self.main.smoother.retune(main.to_vec());
        if let Some(channel) = &mut self.extra {
            channel.smoother.retune(extra);
        }
    }

    /// Factor on every smoothing time.
    #[must_use]
    pub fn smoothing(&self) -> f64 {
        self.main.smoother.amount()
    }

    /// 0 none, 1 as it is set.
    pub fn set_smoothing(&mut self, amount: f64) {
        self.channels()
            .for_each(|channel| channel.smoother.set_amount(amount));
    }

    /// What the performer's hand does.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.main.mode()
    }

    /// Goes to another mode, without a jump.
    pub fn set_mode(&mut self, mode: Mode) {
        if mode != self.mode() {
            self.channels().for_each(|channel| channel.set_mode(mode));
        }
    }

    /// The show is over: to neutral within so many seconds, whatever the mode.
    pub fn leave(&mut self, seconds: f64) {
        self.channels().for_each(|channel| channel.leave(seconds));
    }

    /// The stream begins anew: pending events are void and the values ease into what comes.
    pub fn forget(&mut self) {
        self.trigger.reset();
        self.channels().for_each(Channel::restart);
    }

    /// What was given lately has not been heard: eases from what was, the eight and the taught outputs beside them.
    pub fn resume(&mut self, heard: &Parameters, extras: &[f64]) {
        self.main.resume(heard);
        if let Some(channel) = self.extra.as_mut().filter(|c| c.out().len() == extras.len()) {
            channel.resume(extras);
        }
    }

    /// Whether the model plays, not the scalars.
    #[must_use]
    pub fn by_model(&self) -> bool {
        self.by.is_some_and(|(model, _)| model)
    }

    /// How long the source has been silent, seconds.
    #[must_use]
    pub fn silent(&self) -> f64 {
        self.main.silent()
    }

    fn channels(&mut self) -> impl Iterator<Item = &mut Channel> {
        std::iter::once(&mut self.main).chain(&mut self.extra)
    }

    /// A frame, `dt` seconds of source time after the last.
    ///
    /// Without what the model said (there is none, or it is late) the scalars play. `taught` are a mapping's values,
    /// one a place; without them its own outputs hold. `activity` is 0 while the body stands still.
    pub fn play(
        &mut self,
        output: Option<&ModelOutputWithLeads<'_>>,
        scalars: &[f64; SCALAR_COUNT],
        taught: Option<&[f64]>,
        activity: f64,
        dt: f64,
    ) -> Out {
        let taught = taught.filter(|_| !self.bypass);
        let by = (output.is_some() && !self.bypass, taught.is_some());
        let mut target = match output {
            Some(output) if !self.bypass => output.now(&output.leads_ms),
            _ => scalar_mapping(scalars),
        };
        let events = if let Some(output) = output {
            let hazards = output.hazards.each_ref().map(Vec::as_slice);
            self.trigger.step(hazards, output.gate, output.way_ms, dt)
        } else {
            self.trigger.pass(dt);
            Vec::new()
        };
        target[LOUDNESS] *= activity;
        if let Some(taught) = taught {
            self.held.clear();
            for (place, &value) in self.places.iter().zip(taught) {
                match place {
                    Some(place) => target[*place] = value,
                    None => self.held.push(value),
                }
            }
        }
        if self.by.is_some_and(|before| before != by) {
            self.switch.start(&self.target);
        }
        self.by = Some(by);
        self.asked = target;
        self.activity = activity;
        self.out(target, events, dt)
    }

    /// No frame, `dt` seconds after the last call: what the newest one's model says of now.
    ///
    /// `away` seconds have passed since that frame. The forecast is read that much farther ahead; how far holding and
    /// averaging are better is mixed in it already. Without one, and for what a mapping taught, the last values hold.
    pub fn bridge(&mut self, output: Option<&ModelOutputWithLeads<'_>>, away: f64, dt: f64) -> Out {
        let mut target = self.asked;
        let mut events = Vec::new();
        if let (Some(output), Some((true, by_mapping))) = (output, self.by) {
            let mut ahead = output.now(
                &output
                    .leads_ms
                    .map(|lead| (lead + 1000.0 * away).min(HORIZONS_MS[4])),
            );
            ahead[LOUDNESS] *= self.activity;
            for (place, (target, ahead)) in target.iter_mut().zip(ahead).enumerate() {
                if !(by_mapping && self.places.contains(&Some(place))) {
                    *target = ahead;
                }
            }
            // A cast saturates: more bins than there are have passed.
            let passed = (1000.0 * away / BIN_MS).round_ties_even() as usize;
            let hazards = output.hazards.each_ref().map(|row| later(row, passed));
            events = self.trigger.step(
                hazards.each_ref().map(Vec::as_slice),
                output.gate,
                output.way_ms,
                dt,
            );
        } else {
            self.trigger.pass(dt);
        }
        self.out(target, events, dt)
    }

    /// No frame for another `dt` seconds: hold, then fade.
    pub fn silence(&mut self, dt: f64) -> Parameters {
        if let Some(channel) = &mut self.extra {
            self.extras.copy_from_slice(channel.silence(dt));
        }
        eight(self.main.silence(dt))
    }

    /// From what is asked for to what goes out.
    fn out(&mut self, mut target: Parameters, events: Vec<Event>, dt: f64) -> Out {
        self.switch.step(&mut target, dt);
        self.target = target;
        if self.gain != 1.0 {
            // Not `min`, which makes the loudest of what is not finite.
            let louder = target[LOUDNESS] * self.gain;
            target[LOUDNESS] = if louder > 1.0 { 1.0 } else { louder };
        }
        if let Some(channel) = &mut self.extra {
            let mut goal = self.held.clone();
            goal.resize(self.extras.len(), 0.0);
            self.extras.copy_from_slice(channel.play(&mut goal, dt));
        }
        let values = eight(self.main.play(&mut target, dt));
        (values, self.allowed(events, dt))
    }

    /// The events where there may be any; where not, what was announced is called off.
    fn allowed(&mut self, mut events: Vec<Event>, dt: f64) -> Vec<Event> {
        self.announced.retain_mut(|(_, due)| {
            let comes = *due > dt;
            *due -= dt;
            comes
        });
        if self.mode() != Mode::Playing || self.bypass || self.activity == 0.0 {
            let off = |(kind, ahead)| Event {
                kind,
                cancelled: true,
                strength: 0.0,
                ahead,
            };
            return self.announced.drain(..).map(off).collect();
        }
        events.retain(|event| {
            if !event.cancelled {
                self.announced.push((event.kind, event.ahead));
                return true;
            }
            // Of what nobody was told, nothing is called off.
            let away = |at: &usize| (self.announced[*at].1 - event.ahead).abs();
            let mine = (0..self.announced.len()).filter(|&at| self.announced[at].0 == event.kind);
            let nearest = mine.min_by(|a, b| away(a).total_cmp(&away(b)));
            nearest.map(|at| self.announced.remove(at)).is_some()
        });
        events
    }
}

impl ModelOutputWithLeads<'_> {
    /// The parameters at these leads, in the performer's range.
    fn now(&self, leads_ms: &Parameters) -> Parameters {
        let mut values = at_lead(&self.forecast, leads_ms);
        for reach in self.reaches {
            if let Some(value) = values.get_mut(reach.place) {
                *value = reach.stretch(*value);
            }
        }
        values
    }
}

/// Hazards after so many bins have passed; nothing is known of the last ones.
fn later(row: &[f64], passed: usize) -> Vec<f64> {
    let mut later = row.get(passed..).unwrap_or_default().to_vec();
    later.resize(row.len(), 0.0);
    later
}

/// The main channel's vector, which has eight values.
fn eight(values: &[f64]) -> Parameters {
    std::array::from_fn(|i| values[i])
}
