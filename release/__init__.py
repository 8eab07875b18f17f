"""Programs that build what an index of packages gets, and try it in environments without the source tree."""
