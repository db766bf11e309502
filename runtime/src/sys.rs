//! The one module that may hold `unsafe`: kernel interfaces that no safe wrapper covers. Each block says why it is
//! sound. Nothing here decides anything.
