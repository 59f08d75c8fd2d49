mod behaviour;
mod kit;
mod model;
