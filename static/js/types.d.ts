/** JSON shapes that the server sends: app/domain/{snapshot,summary,ticks}.py say what they mean. */

interface Speedup { value: number | null; low: number | null; high: number | null; heats: number; verdict: string; reason: string }
interface HeatView { id: number; lane: string; cell: number; ordinal: number; attempt: number; state: string; tokens_per_second: number | null; flags: string[]; error: string | null }
interface AcceptanceView { drafts: number; drafted: number; accepted: number; rate: number | null; tau: number | null; accepted_per_position: number[] | null; rate_per_position: number[] | null }
interface LaneCell { heats: HeatView[]; tokens_per_second: number | null; acceptance: AcceptanceView | null; speedup: Speedup | null; flags: string[] }
interface CellView { id: number; position: number; workload: string; context: number; concurrency: number; lanes: Record<string, LaneCell> }
interface StepView { name: string; started_at: string; seconds: number | null }
interface Failure { step: string; cause: string; remedy: string; line: string }
interface LaneView { id: number; name: string; position: number; is_baseline: boolean; drafter: string | null; k: number | null; state: string; steps: StepView[]; argv: string[]; engine_version: string | null; failure: Failure | null; log_tail: string }
interface NowView { lane: string | null; cell: number | null; heat: number | null; ordinal: number | null; text: string; since: string | null }
interface RunView { id: string; name: string; state: string; heats_done: number; heats_total: number; eta_seconds: number | null; queue_position: number | null; is_cancelling: boolean; error: string | null; slug: string | null }
interface Snapshot { run: RunView; recipe: { decode: { seconds: number } }; lanes: LaneView[]; cells: CellView[]; now: NowView; version: number; last_tick: number }
interface GpuSample { power_w: number | null; memory_mib: number | null; sm_clock_mhz: number | null; temperature_c: number | null; utilisation_percent: number | null; throttle_reasons: string[] }
interface Tick { id: number; lane: string; cell: number; heat: number; second: number; length_s: number; tokens: number; is_steady: boolean; text: string; gpu: GpuSample | null }

/** One line of the race: a lane's heat with its ticks. */
interface RaceLine { lane: string; style: number; heat: HeatView; ticks: Tick[]; isGhost: boolean }
/** A big number and what kind of number it is. */
interface Score { lane: string; value: number | null; kind: string }
interface Ratio { value: number | null; interval: string; words: string }
/** What is on screen at this moment. */
interface Race { cell: CellView; featured: string | null; lines: RaceLine[]; clock: number; scores: Score[]; ratio: Ratio | null }
