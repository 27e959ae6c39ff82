// Package revision keeps the history of a workload's template as ControllerRevisions: what a revision contains, its name, which one is the
// update revision, and which ones may be deleted.
//
// A revision is a function of the template. Its data is the strategic merge patch that would restore the template,
// {"spec":{"template":{...,"$patch":"replace"}}} with sorted keys. Its name is the owner's name and a hash of that data and the owner's
// collision count. So the same template gives the same revision, including one that OpenKruise wrote: data and hash match OpenKruise 1.9 byte
// for byte, even the null creationTimestamp that older clients put into a template's metadata.
//
//	all := revision.List(...)                  the owner's revisions, oldest first
//	want := revision.New(...)                  the revision of the current template
//	step := revision.Next(all, want)           keep, create, or make an old one the newest
//	writer.Write(ctx, owner, step)             apply it, and expect the cache to show it
//	revision.Surplus(all, live, limit)         revisions beyond revisionHistoryLimit
//
// The package doesn't know any kind of workload: template is any value that marshals to the JSON under spec.template.
package revision
