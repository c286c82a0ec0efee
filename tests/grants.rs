//! What becomes of permits.
