//! The canonical body, retargeting, resampling, model features and the live front end.
#![forbid(unsafe_code)]
