package placement

import "strconv"

// maxFit bounds how many instances Fit tries.
const maxFit = 2000

// Fit returns how many of n instances like it would find room now, beside work that has its place, and why the next
// would not. Nothing is allocated afterwards. More than 2,000 are not tried.
func (a *Auction) Fit(it Item, n int) (int, *Refusal) {
	a.note(it.Constraint.Apart)
	var taken []*holding
	defer func() {
		for _, h := range taken {
			a.deallocate(h)
		}
	}()
	s := a.shapeOf(&it)
	for i := range min(n, maxFit) {
		c := a.find(s, a.groups[it.Group])
		if c == nil {
			return i, a.explain(s)
		}
		one := it
		one.Hold = "\x00fit/" + strconv.Itoa(i)
		one.ID = one.Hold
		taken = append(taken, a.take(&one, s, c, 0))
	}
	return n, nil
}
