//! The picture's style sheet and arrowheads. Colours stand twice, once for each
//! preference, because not every viewer of SVG knows custom properties.

pub(super) const STYLE: &str = "\
<style>
text { font-family: system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif; }
.page { fill: #ffffff; }
.body { fill: none; stroke: #8c959f; stroke-dasharray: 6 4; }
.link { stroke: #8c959f; stroke-dasharray: 2 3; }
.heading { font-size: 16px; font-weight: 600; fill: #1f2328; }
.legend { font-size: 11.5px; fill: #59636e; }
.name { font-size: 14px; font-weight: 600; text-anchor: middle; fill: #1f2328; }
.detail { font-size: 11.5px; text-anchor: middle; fill: #59636e; }
.label { font-size: 11px; text-anchor: middle; fill: #3d444d; stroke: #ffffff; stroke-width: 5px; stroke-linejoin: round; paint-order: stroke; }
.node rect { fill: #f6f8fa; stroke: #8c959f; stroke-width: 1.5; }
.mark { font-weight: 600; }
.edge { stroke: #7d8590; stroke-width: 1.5; }
.taken { stroke: #24292f; stroke-width: 2.2; }
.failure { stroke: #cf222e; stroke-dasharray: 7 4; }
.always { stroke-dasharray: 0.5 5; stroke-linecap: round; stroke-width: 2.4; }
.faint { opacity: 0.4; }
.tip { fill: #7d8590; }
.tip-taken { fill: #24292f; }
.tip-failure { fill: #cf222e; }
.tip-faint { fill: #c9cdd2; }
.succeeded rect { fill: #e6f8eb; stroke: #1a7f37; }
.succeeded .mark { fill: #116329; }
.failed rect { fill: #ffebe9; stroke: #cf222e; stroke-width: 2; }
.failed .mark { fill: #b3151f; }
.running rect { fill: #e3f2ff; stroke: #0969da; stroke-width: 2; }
.running .mark { fill: #0550ae; }
.queued rect, .waiting rect { fill: #fff8d6; stroke: #9a6700; }
.queued .mark, .waiting .mark { fill: #7d4e00; }
.blocked rect { fill: #fff1e5; stroke: #bc4c00; }
.blocked .mark { fill: #953800; }
.cancelled rect { fill: #f4effd; stroke: #8250df; }
.cancelled .mark { fill: #6639ba; }
.skipped rect { stroke-dasharray: 5 4; }
@media (prefers-color-scheme: dark) {
.page { fill: #0d1117; }
.body { stroke: #6e7681; }
.link { stroke: #6e7681; }
.heading, .name { fill: #f0f6fc; }
.legend, .detail { fill: #9198a1; }
.label { fill: #c9d1d9; stroke: #0d1117; }
.node rect { fill: #161b22; stroke: #6e7681; }
.edge { stroke: #8b949e; }
.taken { stroke: #e6edf3; }
.failure { stroke: #f85149; }
.tip { fill: #8b949e; }
.tip-taken { fill: #e6edf3; }
.tip-failure { fill: #f85149; }
.tip-faint { fill: #40464e; }
.succeeded rect { fill: #0f2a19; stroke: #2ea043; }
.succeeded .mark { fill: #56d364; }
.failed rect { fill: #36121a; stroke: #f85149; }
.failed .mark { fill: #ff8b82; }
.running rect { fill: #0c2546; stroke: #388bfd; }
.running .mark { fill: #79c0ff; }
.queued rect, .waiting rect { fill: #2e2407; stroke: #bb8009; }
.queued .mark, .waiting .mark { fill: #e3b341; }
.blocked rect { fill: #341a08; stroke: #db6d28; }
.blocked .mark { fill: #f0883e; }
.cancelled rect { fill: #241a3d; stroke: #8957e5; }
.cancelled .mark { fill: #d2a8ff; }
}
</style>
";

pub(super) const MARKERS: &str = "\
<defs>
<marker id=\"windlass-tip\" viewBox=\"0 0 10 10\" refX=\"8.5\" refY=\"5\" markerWidth=\"9\" markerHeight=\"9\" markerUnits=\"userSpaceOnUse\" orient=\"auto-start-reverse\"><path class=\"tip\" d=\"M0 0.8L10 5L0 9.2z\"/></marker>
<marker id=\"windlass-tip-taken\" viewBox=\"0 0 10 10\" refX=\"8.5\" refY=\"5\" markerWidth=\"10\" markerHeight=\"10\" markerUnits=\"userSpaceOnUse\" orient=\"auto-start-reverse\"><path class=\"tip-taken\" d=\"M0 0.8L10 5L0 9.2z\"/></marker>
<marker id=\"windlass-tip-failure\" viewBox=\"0 0 10 10\" refX=\"8.5\" refY=\"5\" markerWidth=\"10\" markerHeight=\"10\" markerUnits=\"userSpaceOnUse\" orient=\"auto-start-reverse\"><path class=\"tip-failure\" d=\"M0 0.8L10 5L0 9.2z\"/></marker>
<marker id=\"windlass-tip-faint\" viewBox=\"0 0 10 10\" refX=\"8.5\" refY=\"5\" markerWidth=\"9\" markerHeight=\"9\" markerUnits=\"userSpaceOnUse\" orient=\"auto-start-reverse\"><path class=\"tip-faint\" d=\"M0 0.8L10 5L0 9.2z\"/></marker>
</defs>
";
