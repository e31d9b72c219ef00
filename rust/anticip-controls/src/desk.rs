//! From model output to sink values: leads, fallback, gain, smoothing, shaping, fades, modes and events.
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

/// Crossfade time in seconds when the source of the target changes (model, scalars, mapping).
const SWITCH_S: f64 = 0.25;

/// Model output for one frame, and the leads and ranges with which it is read.
#[derive(Debug, Clone)]
pub struct ModelOutputWithLeads<'a> {
    /// Parameters at each horizon.
    pub forecast: Forecast,
    /// Hazard of each bin, per event kind; at least one bin each.
    pub hazards: [&'a [f64]; EVENT_COUNT],
    /// Value of the commitment gate.
    pub gate: f64,
    /// Lead of each parameter, in ms.
    pub leads_ms: Parameters,
    /// Lead of announced events, in ms.
    pub event_lead_ms: f64,
    /// Stretching maps of the performer's range.
    pub reaches: &'a [Reach],
}

/// The eight parameters and the events; for mapping outputs beside the eight see [`Desk::extras`].
pub type Out = (Parameters, Vec<Event>);

/// Computes the control values of one performer.
#[derive(Debug, Clone)]
pub struct Desk {
    /// Factor on loudness.
    pub gain: f64,
    /// Whether the scalars play instead of the model and of a mapping.
    pub bypass: bool,
    main: Channel,
    extra: Option<Channel>,
    extras: Vec<f64>,
    trigger: Trigger,
    switch: Crossfade,
    target: Parameters,
    // Target and activity of the last frame, before any forecast replaced it.
    frame_target: Parameters,
    activity: f64,
    // Announced events that have not come yet: kind, seconds left.
    announced: Vec<(usize, f64)>,
    // Where the target comes from: (model in use, mapping in use); None before the first frame.
    target_source: Option<(bool, bool)>,
    // Index of each mapping output among the eight parameters; None for an extra output.
    places: Vec<Option<usize>>,
    // Latest mapping values of the extra outputs.
    extra_targets: Vec<f64>,
}

impl Desk {
    /// One smoothing per parameter; the output starts at `neutral`. When stopped it is that, but without
    /// loudness.
    #[must_use]
    pub fn new(
        smoothing: [Smoothing; PARAMETER_COUNT],
        silence: Silence,
        neutral: Parameters,
        trigger: Trigger,
    ) -> Self {
        let mut main = Channel::new(smoothing.to_vec(), silence, &neutral);
        main.mute_stopped(LOUDNESS);
        Self {
            gain: 1.0,
            bypass: false,
            main,
            extra: None,
            extras: Vec::new(),
            trigger,
            switch: Crossfade::new(SWITCH_S),
            target: neutral,
            frame_target: neutral,
            activity: 1.0,
            announced: Vec::new(),
            target_source: None,
            places: Vec::new(),
            extra_targets: Vec::new(),
        }
    }

    /// Uses mapping outputs from the next frame on.
    ///
    /// `places` are the indices of the outputs among the eight parameters, `None` for an extra output.
    /// `smoothing`, `neutral` and `from` (the starting values) have one entry per extra output.
    pub fn set_mapping(
        &mut self,
        places: Vec<Option<usize>>,
        smoothing: Vec<Smoothing>,
        neutral: &[f64],
        from: &[f64],
    ) {
        self.places = places;
        self.extras = from.to_vec();
        self.extra_targets = from.to_vec();
        self.extra = (!neutral.is_empty()).then(|| {
            let mut channel = Channel::new(smoothing, self.main.silence_settings(), neutral);
            channel.smoother.set_amount(self.main.smoother.amount());
            channel.begin(from);
            channel.set_mode(self.main.mode());
            channel
        });
        if self.target_source.is_some() {
            self.switch.start(&self.target);
        }
    }

    /// Number of outputs of the mapping.
    #[must_use]
    pub fn mapping_len(&self) -> usize {
        self.places.len()
    }

    /// The latest values of the extra mapping outputs, those that are not among the eight.
    #[must_use]
    pub fn extras(&self) -> &[f64] {
        &self.extras
    }

    /// Sets the shapers, each with its index among the eight (`main`) or among the extra outputs (`extra`).
    pub fn set_shapers(&mut self, main: Vec<(usize, Shared<Shaper>)>, extra: Vec<(usize, Shared<Shaper>)>) {
        self.main.set_shapers(main);
        if let Some(channel) = &mut self.extra {
            channel.set_shapers(extra);
        }
    }

    /// Replaces the smoothing of the eight and of the extra outputs from the next frame on.
    pub fn set_smoothing_settings(&mut self, main: [Smoothing; PARAMETER_COUNT], extra: Vec<Smoothing>) {
        self.main.smoother.retune(main.to_vec());
        if let Some(channel) = &mut self.extra {
            channel.smoother.retune(extra);
        }
    }

    /// The factor on every smoothing time.
    #[must_use]
    pub fn smoothing(&self) -> f64 {
        self.main.smoother.amount()
    }

    /// Sets the factor on every smoothing time: 0 turns smoothing off, 1 leaves the times as set.
    pub fn set_smoothing(&mut self, amount: f64) {
        self.channels()
            .for_each(|channel| channel.smoother.set_amount(amount));
    }

    /// The current mode.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.main.mode()
    }

    /// Changes the mode without a jump.
    pub fn set_mode(&mut self, mode: Mode) {
        if mode != self.mode() {
            self.channels().for_each(|channel| channel.set_mode(mode));
        }
    }

    /// Stops within `seconds` at the end of the show, whatever the mode.
    pub fn fade_out(&mut self, seconds: f64) {
        self.channels().for_each(|channel| channel.fade_out(seconds));
    }

    /// Starts a new stream: drops pending events and eases from the current values into the next frame.
    pub fn restart(&mut self) {
        self.trigger.reset();
        self.channels().for_each(Channel::restart);
    }

    /// Eases the eight from `last_sent`, and the extra outputs from `extras`; later outputs were not sent.
    pub fn resume(&mut self, last_sent: &Parameters, extras: &[f64]) {
        self.main.resume(last_sent);
        if let Some(channel) = self.extra.as_mut().filter(|c| c.out().len() == extras.len()) {
            channel.resume(extras);
        }
    }

    /// Whether the model plays, rather than the scalars.
    #[must_use]
    pub fn by_model(&self) -> bool {
        self.target_source.is_some_and(|(model, _)| model)
    }

    /// Seconds since the source's last frame.
    #[must_use]
    pub fn silent_s(&self) -> f64 {
        self.main.silent_s()
    }

    fn channels(&mut self) -> impl Iterator<Item = &mut Channel> {
        std::iter::once(&mut self.main).chain(&mut self.extra)
    }

    /// The output for a frame, `dt` seconds of source time after the last.
    ///
    /// Without model output (there is none, or it is late) the scalars play. `mapped` are the mapping's
    /// values, one per place; without them the mapping's extra outputs hold. `activity` is 0 while the body
    /// stands still.
    pub fn play(
        &mut self,
        output: Option<&ModelOutputWithLeads<'_>>,
        scalars: &[f64; SCALAR_COUNT],
        mapped: Option<&[f64]>,
        activity: f64,
        dt: f64,
    ) -> Out {
        let mapped = mapped.filter(|_| !self.bypass);
        let target_source = (output.is_some() && !self.bypass, mapped.is_some());
        let mut target = match output {
            Some(output) if !self.bypass => output.at_leads(&output.leads_ms),
            _ => scalar_mapping(scalars),
        };
        let events = if let Some(output) = output {
            self.trigger
                .step(output.hazards, output.gate, output.event_lead_ms, dt)
        } else {
            self.trigger.advance(dt);
            Vec::new()
        };
        target[LOUDNESS] *= activity;
        if let Some(mapped) = mapped {
            self.extra_targets.clear();
            for (place, &value) in self.places.iter().zip(mapped) {
                match place {
                    Some(place) => target[*place] = value,
                    None => self.extra_targets.push(value),
                }
            }
        }
        if self.target_source.is_some_and(|before| before != target_source) {
            self.switch.start(&self.target);
        }
        self.target_source = Some(target_source);
        self.frame_target = target;
        self.activity = activity;
        self.output(target, events, dt)
    }

    /// The output without a new frame, `dt` seconds after the last call, from the newest frame's model
    /// output.
    ///
    /// That frame came `since_step_s` seconds ago: the forecast is read that much farther ahead (blending
    /// towards held and mean values with distance is already part of it). Without model output, and for
    /// mapping outputs, the last values hold.
    pub fn bridge(&mut self, output: Option<&ModelOutputWithLeads<'_>>, since_step_s: f64, dt: f64) -> Out {
        let mut target = self.frame_target;
        let mut events = Vec::new();
        if let (Some(output), Some((true, is_mapped))) = (output, self.target_source) {
            let mut ahead = output.at_leads(
                &output
                    .leads_ms
                    .map(|lead| (lead + 1000.0 * since_step_s).min(HORIZONS_MS[4])),
            );
            ahead[LOUDNESS] *= self.activity;
            for (place, (target, ahead)) in target.iter_mut().zip(ahead).enumerate() {
                if !(is_mapped && self.places.contains(&Some(place))) {
                    *target = ahead;
                }
            }
            // The cast saturates: then all bins have passed.
            let passed = (1000.0 * since_step_s / BIN_MS).round_ties_even() as usize;
            let hazards = output.hazards.map(|row| shift_hazards(row, passed));
            events = self.trigger.step(
                hazards.each_ref().map(Vec::as_slice),
                output.gate,
                output.event_lead_ms,
                dt,
            );
        } else {
            self.trigger.advance(dt);
        }
        self.output(target, events, dt)
    }

    /// The output without a frame for another `dt` seconds: held, then faded.
    pub fn silence(&mut self, dt: f64) -> Parameters {
        if let Some(channel) = &mut self.extra {
            self.extras.copy_from_slice(channel.silence(dt));
        }
        to_parameters(self.main.silence(dt))
    }

    /// From the target to the output.
    fn output(&mut self, mut target: Parameters, events: Vec<Event>, dt: f64) -> Out {
        self.switch.step(&mut target, dt);
        self.target = target;
        if self.gain != 1.0 {
            // Not `min`, which would turn NaN into full loudness.
            let amplified = target[LOUDNESS] * self.gain;
            target[LOUDNESS] = if amplified > 1.0 { 1.0 } else { amplified };
        }
        if let Some(channel) = &mut self.extra {
            let mut goal = self.extra_targets.clone();
            goal.resize(self.extras.len(), 0.0);
            self.extras.copy_from_slice(channel.play(&mut goal, dt));
        }
        let values = to_parameters(self.main.play(&mut target, dt));
        (values, self.filter_events(events, dt))
    }

    /// The events that may be sent; where none may, cancels the announced ones.
    fn filter_events(&mut self, mut events: Vec<Event>, dt: f64) -> Vec<Event> {
        self.announced.retain_mut(|(_, due)| {
            let is_pending = *due > dt;
            *due -= dt;
            is_pending
        });
        if self.mode() != Mode::Playing || self.bypass || self.activity == 0.0 {
            let cancel = |(kind, ahead)| Event::cancel(kind, 0.0, ahead);
            return self.announced.drain(..).map(cancel).collect();
        }
        events.retain(|event| {
            if !event.cancelled {
                self.announced.push((event.kind, event.ahead));
                return true;
            }
            // Only announced events are cancelled.
            let away = |i: &usize| (self.announced[*i].1 - event.ahead).abs();
            let same_kind = (0..self.announced.len()).filter(|&i| self.announced[i].0 == event.kind);
            let nearest = same_kind.min_by(|a, b| away(a).total_cmp(&away(b)));
            nearest.map(|i| self.announced.remove(i)).is_some()
        });
        events
    }
}

impl ModelOutputWithLeads<'_> {
    /// The parameters at these leads, in the performer's range.
    fn at_leads(&self, leads_ms: &Parameters) -> Parameters {
        let mut values = at_lead(&self.forecast, leads_ms);
        for reach in self.reaches {
            if let Some(value) = values.get_mut(reach.place) {
                *value = reach.stretch(*value);
            }
        }
        values
    }
}

/// Hazards after `passed` bins; the last `passed` ones are unknown and become 0.
fn shift_hazards(row: &[f64], passed: usize) -> Vec<f64> {
    let mut shifted = row.get(passed..).unwrap_or_default().to_vec();
    shifted.resize(row.len(), 0.0);
    shifted
}

/// The main channel's values as an array.
fn to_parameters(values: &[f64]) -> Parameters {
    std::array::from_fn(|i| values[i])
}
