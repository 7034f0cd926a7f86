package node

import (
	"cantina/event"
	"cantina/internal/booking"
)

// ledgerHub hands every event to the ledger's book before it goes to the hub.
type ledgerHub struct {
	hub  *event.Hub
	book *booking.Book
}

// Publish books or frees what the rows of one commit hold, and passes the events on.
func (h *ledgerHub) Publish(revision int64, events ...event.Event) {
	h.book.Take(events...)
	h.hub.Publish(revision, events...)
}
