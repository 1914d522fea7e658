import type { ApiError, ErrorShape } from "../api";
import { Button } from "./Button";
import { Icon } from "./Icon";

const shapeOf = (error: ApiError | ErrorShape): ErrorShape => ("shape" in error ? error.shape : error);

/** What was refused and why, in the words of the command line: got, expected, available, remedy. */
export function ErrorBox({ error, onRetry, onClose }: { error: ApiError | ErrorShape | null; onRetry?: () => void; onClose?: () => void }) {
  if (!error) return null;
  const { what, got, expected, available, remedy } = shapeOf(error);
  return (
    <div class="error-box" role="alert">
      <Icon name="alert" />
      <div class="error-box-words">
        <p>{what}</p>
        <dl>
          {got && <><dt>Got</dt><dd>{got}</dd></>}
          {expected && <><dt>Expected</dt><dd>{expected}</dd></>}
          {available && available.length > 0 && <><dt>Available</dt><dd>{available.slice(0, 20).join(", ")}</dd></>}
          {remedy && <><dt>Remedy</dt><dd>{remedy}</dd></>}
        </dl>
      </div>
      {onRetry && <Button small icon="refresh" onClick={onRetry}>Try again</Button>}
      {onClose && <Button kind="quiet" small icon="close" aria-label="Close" onClick={onClose} />}
    </div>
  );
}
