package main

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"cantina/api"
	"cantina/internal/run"
	pb "cantina/wire/cantinav1"
)

// changed prints rows of a list that is read again: those that are new or differ from the last time.
type changed[T proto.Message] struct {
	c    *cli
	t    table[T]
	seen map[string]string // id → its JSON
	gone bool              // a row that is not in the list any more is noted
}

func (w *changed[T]) print(items []T) error {
	first := w.seen == nil
	now := make(map[string]string, len(items))
	var rows []T
	for _, x := range items {
		id := w.t.id(x)
		if now[id] = string(api.JSON(x)); w.seen[id] != now[id] {
			rows = append(rows, x)
		}
	}
	for id := range w.seen {
		if _, there := now[id]; !there && w.gone {
			w.c.notef("%s is gone\n", printable(id))
		}
	}
	w.seen = now
	if len(rows) == 0 && !first {
		return nil
	}
	err := list(w.c, w.t, rows)
	w.c.noHeader = true
	return err
}

// watched runs a watch until Ctrl-C, the way to end it.
func (c *cli) watched(f func(context.Context) error) error {
	err := c.detachable("", nil, f)
	if e, ok := err.(*exit); ok && e.code == exitInterrupted {
		return nil
	}
	return err
}

// ofSchedule prints a list that belongs to a schedule, and with watch its changes after each event of the schedule.
func ofSchedule[T proto.Message](c *cli, t table[T], watch bool, s subject,
	read func() (items []T, position string, err error)) error {
	if !watch {
		items, _, err := read()
		if err != nil {
			return err
		}
		return list(c, t, items)
	}
	c.streaming()
	w := &changed[T]{c: c, t: t}
	return c.watched(func(ctx context.Context) error {
		q := &pb.StreamEventsRequest{Kind: []string{"schedule"}, Subject: s.domain + "/" + s.name}
		return waitUntil(ctx, c, q, func(context.Context) (bool, string, error) {
			items, position, err := read()
			if err != nil {
				return false, "", err
			}
			return false, position, w.print(items)
		})
	})
}

// againPause is the interval at which a list without events of its own is read again.
const againPause = 2 * time.Second

// polled prints a list, and with watch its changes.
func polled[T proto.Message](c *cli, t table[T], read func() ([]T, error)) error {
	c.streaming()
	w := &changed[T]{c: c, t: t, gone: true}
	return c.watched(func(ctx context.Context) error {
		for {
			items, err := read()
			if err != nil {
				return err
			}
			if err := w.print(items); err != nil {
				return err
			}
			if err := run.Pause(ctx, againPause); err != nil {
				return err
			}
		}
	})
}
