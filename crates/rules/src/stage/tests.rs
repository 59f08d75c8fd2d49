mod behaviour;
mod kit;
mod model;
mod threads;
