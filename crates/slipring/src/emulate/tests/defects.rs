//! What TLEM and nmreplay got wrong in their configuration and must not come back.
